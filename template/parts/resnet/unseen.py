# {% include "parts/vision/unseen.py" %}
