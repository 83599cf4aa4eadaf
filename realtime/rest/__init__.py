"""The HTTP routes beside the socket."""
