"""Showing explanations to people."""
