"""Arbitrary messages of the daemon's own protocol, made from its descriptors."""

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
}


def messages(kind: Descriptor, texts: st.SearchStrategy[str]) -> st.SearchStrategy[Message]:
    """Any message of a kind; its texts are partly ones that mean something to the daemon."""
    fields = {field.name: _value(field, texts) for field in kind.fields}
    given = st.fixed_dictionaries({}, optional=fields)
    return given.map(lambda values: _build(kind, values))


def _build(kind: Descriptor, values: dict[str, Any]) -> Message:
    message: Message = GetMessageClass(kind)()
    for name, value in values.items():
        target = getattr(message, name)
        if isinstance(value, Message):
            target.CopyFrom(value)
        elif isinstance(value, list):
            target.extend(value)
        elif isinstance(value, dict):
            target.update(value)
        else:
            setattr(message, name, value)
    return message


def _value(field: FieldDescriptor, texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        key, value = (_one(entry.fields_by_name[name], texts) for name in ("key", "value"))
        return st.dictionaries(key, value, max_size=3)
    one = _one(field, texts)
    return st.lists(one, max_size=3) if field.is_repeated else one


def _one(field: FieldDescriptor, texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    if field.cpp_type in _INTEGERS:
        low, high = _INTEGERS[field.cpp_type]
        return st.sampled_from([0, 1, low, high]) | st.integers(low, high)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    if field.type == FieldDescriptor.TYPE_STRING:
        return texts
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=40)
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return messages(field.message_type, texts)
    return st.floats(width=32)
