"""Tools: what they are (`base`), which there are (`registry`), how they run (`execute`), and the built-in ones."""
