"""A server for one machine: TF Serving's REST routes, LibreTranslate's API and a page.

Begin with `server`. `tf_serving_rest`, `libre_translate` and `page_routes` have its
routes, `http_json` reads and writes their bodies, `text_requests` reads what requests
want of translations and asks the model, `batching_queue` joins the texts of
concurrent requests, `model_loading` makes a `served_model` of an opened one, and
`metrics` counts.
"""
