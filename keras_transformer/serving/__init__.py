"""Serving a trained model, here or in TensorFlow Serving, CTranslate2, Apache Beam.

Begin with `signatures`, the functions of an exported model. `saved_model` writes and
checks exports, `warmup` adds the requests that a server runs first, `client` sends
requests to a server and `protected_client` protects parts of their texts,
`bulk_translation` translates many files on Beam, and `ctranslate2_converter` converts a
model to CTranslate2.
"""
