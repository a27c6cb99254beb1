"""A trained model in other programs: TensorFlow Serving, CTranslate2, Apache Beam.

Begin with `signatures`, the functions of an export; `saved_model` writes and loads
exports, `warmup` adds the requests that a server runs first, `client` asks a server,
`bulk_translation` translates many files, `ctranslate2_converter` leaves TensorFlow.
"""
