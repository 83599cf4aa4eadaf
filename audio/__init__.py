"""Sound as numbers: formats, resampling, codecs, endpointing.

A leaf: no model runtime, no asyncio.
"""
