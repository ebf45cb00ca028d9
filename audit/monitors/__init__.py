"""Watching a running service all day: is the promise kept, and is the traffic still what it was?"""
