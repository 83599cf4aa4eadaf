"""The server: the Realtime protocol, its sessions, and the sockets they live on."""
