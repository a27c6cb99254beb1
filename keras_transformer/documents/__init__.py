"""Documents: which parts of a text are sentences to translate, and what stays.

Begin with `text`, which finds sentences and puts their translations back where they
were; `web_page`, which needs the extra `documents`, does it with pages. Both import no
TensorFlow. `graph_text` does the same within a graph, for exports. Where sentences end
stands in `sentence_rules`.
"""

# Formats of documents.
FORMATS = ("text", "html")
