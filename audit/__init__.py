"""Was the promise kept? Statistics of what was decided against what turned out to be true."""
