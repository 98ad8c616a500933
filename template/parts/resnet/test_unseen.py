# {% include "parts/vision/test_unseen.py" %}
