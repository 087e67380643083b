"""Attacks on the bot. Each name tells what broke; nothing in here may ever succeed."""
