"""DecDiff with a virtual teacher on complex networks."""
