"""Resources of the API, one file each; `management/api_routes.py` has all their routes."""
