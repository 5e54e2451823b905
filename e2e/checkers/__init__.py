"""How a run is judged, from what it left behind."""
