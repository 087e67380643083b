"""What attackers send: data alone, for every test that wants it."""
