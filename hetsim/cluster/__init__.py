"""Files of Ray's cluster launcher, read and held against a platform, without Ray."""
