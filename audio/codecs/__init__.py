"""The codecs of the wire, one file each, and the table that names them."""
