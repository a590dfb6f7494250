"""Calls and values between processes of one machine: sockets and memory that have no name."""
