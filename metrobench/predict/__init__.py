"""When a deployment will collapse: the first-order model, its four limits, a fit to gauges, and the scrape of them."""
