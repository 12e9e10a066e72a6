"""The likeliest next token, from Python without a package: libqsf by ctypes.

    python3 next_token.py libqsf.so demo-1m-4bit.qsf "It was a dark"
"""
import ctypes
import sys


def check(status):
    if status:
        library.qsf_last_error.restype = ctypes.c_char_p
        sys.exit(f"error: {library.qsf_last_error().decode()}")


library = ctypes.CDLL(sys.argv[1])
model, session = ctypes.c_void_p(), ctypes.c_void_p()
check(library.qsf_model_open(sys.argv[2].encode(), None, ctypes.byref(model)))

# How many there are is known behind a call without a buffer.
count = ctypes.c_size_t()
library.qsf_tokenize(model, sys.argv[3].encode(), None, ctypes.c_size_t(0), ctypes.byref(count))
ids = (ctypes.c_uint32 * count.value)()
check(library.qsf_tokenize(model, sys.argv[3].encode(), ids, count, ctypes.byref(count)))

check(library.qsf_session_new(model, ctypes.c_size_t(0), None, ctypes.byref(session)))
check(library.qsf_session_forward(session, ids, count))
library.qsf_session_logits(session, None, ctypes.c_size_t(0), ctypes.byref(count))
logits = (ctypes.c_float * count.value)()
check(library.qsf_session_logits(session, logits, count, ctypes.byref(count)))
print(max(range(count.value), key=logits.__getitem__))

library.qsf_session_free(session)
library.qsf_model_free(model)
