"""Models in replicas, and the artifacts that judge what they say."""
