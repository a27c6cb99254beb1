"""SentencePiece's model file as a protobuf message, for any version of protobuf.

The class of the sentencepiece package needs the version of protobuf that generated it
or a newer one: protobuf 7 since sentencepiece 0.2.3, while the TensorFlow Serving API
2.21 needs protobuf 6. Only fields that this package reads or writes are declared;
protobuf preserves the others.
"""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# Values of `SentencePiece.type`.
UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4
# The value of `TrainerSpec.model_type` for byte-pair encoding.
BPE = 2

# Number and type of each field, as in SentencePiece's sentencepiece_model.proto. An
# enum is encoded like an int32, and a message that is not declared here like bytes.
_MESSAGES = {
    "SentencePiece": {
        "piece": (1, "STRING"),
        "score": (2, "FLOAT"),
        "type": (3, "INT32"),
    },
    "TrainerSpec": {"model_type": (3, "INT32"), "split_digits": (25, "BOOL")},
    "NormalizerSpec": {"name": (1, "STRING"), "normalization_rule_tsv": (6, "STRING")},
    "ModelProto": {
        "pieces": (1, "SentencePiece"),
        "trainer_spec": (2, "TrainerSpec"),
        "normalizer_spec": (3, "NormalizerSpec"),
        "self_test_data": (4, "BYTES"),
        "denormalizer_spec": (5, "NormalizerSpec"),
    },
}


def _declare() -> type:
    """Return the class of `ModelProto`."""
    Field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="sentencepiece_model.proto")
    for message, fields in _MESSAGES.items():
        declared = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            field = declared.field.add(name=name, number=number)
            field.label = (
                Field.LABEL_REPEATED if name == "pieces" else Field.LABEL_OPTIONAL
            )
            if kind in _MESSAGES:
                field.type, field.type_name = Field.TYPE_MESSAGE, kind
            else:
                field.type = Field.Type.Value(f"TYPE_{kind}")
    # Not in the default pool, where sentencepiece declares a file of the same name.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ModelProto"))


ModelProto = _declare()


def symbols_of(model: bytes) -> frozenset[str]:
    """Return the pieces that a SentencePiece model never splits, wherever they are."""
    pieces = ModelProto.FromString(model).pieces
    return frozenset(each.piece for each in pieces if each.type == USER_DEFINED)
