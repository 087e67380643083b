"""Measures the bot beside two relays that do nothing but pass messages on. Loopback only, bounded in count and time."""
