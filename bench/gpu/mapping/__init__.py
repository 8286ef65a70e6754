"""Parts of bench/gpu/map.py."""
