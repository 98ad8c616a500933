"""The page on which projects are made, served from here or by Python in a browser."""
