/* QSF: quantized language models in one checksummed file. Licence: MIT or Apache-2.0.
 *
 * Made of capi/src by cbindgen; do not edit. docs/c.md has examples.
 *
 * Pointers: what a pointer points to must be valid for the call. NULL gives QSF_USAGE, unless NULL is allowed.
 * Texts are UTF-8, and end with a zero unless there is a length.
 * Threads: functions may be called from all threads at once. There is no global state but the pool of threads that
 * reads files. The text of the last error belongs to a thread.
 */


#ifndef QSF_H
#define QSF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 How a call ended. The numbers are the exit codes of the programs, where these have them.
 */
typedef enum {
  /*
   Done.
   */
  QSF_OK = 0,
  /*
   The request itself is wrong: options, values, a NULL.
   */
  QSF_USAGE = 2,
  /*
   A file is missing, malformed or damaged.
   */
  QSF_BAD_INPUT = 3,
  /*
   A well-formed file that this version cannot handle.
   */
  QSF_UNSUPPORTED = 4,
  /*
   Memory, a RAM budget or disk space ran out.
   */
  QSF_OUT_OF_SPACE = 5,
  /*
   The result is there, and is not all that was asked for.
   */
  QSF_LIMITS_MISSED = 6,
  /*
   The buffer is too small. Its size is where the length goes.
   */
  QSF_BUFFER_TOO_SMALL = 7,
  /*
   Another thread is using the session.
   */
  QSF_BUSY = 8,
  /*
   An error of this library. Please report it.
   */
  QSF_INTERNAL = 70,
  /*
   A callback or a cancellation ended the work.
   */
  QSF_INTERRUPTED = 130,
} qsf_status;

/*
 How a generation ended.
 */
typedef enum {
  /*
   The model ended its text.
   */
  QSF_STOP_TOKEN = 0,
  /*
   There are as many tokens as asked for.
   */
  QSF_STOP_MAX_TOKENS = 1,
  /*
   The callback or a cancellation ended it.
   */
  QSF_STOP_INTERRUPTED = 2,
} qsf_stop;

/*
 A flag that stops work in another thread.
 */
typedef struct qsf_cancel qsf_cancel;

/*
 A model in memory. Threads may share it.
 */
typedef struct qsf_model qsf_model;

/*
 Options: those of the programs by their names, such as "threads", "ram_budget", "kv_type" or "quality".
 */
typedef struct qsf_options qsf_options;

/*
 A text that grows: keys and values of its tokens. One thread at a time may use it; another gets QSF_BUSY.
 */
typedef struct qsf_session qsf_session;

/*
 How tokens are chosen. qsf_sampling_default fills it.
 */
typedef struct {
  /*
   0 always takes the likeliest token.
   */
  float temperature;
  /*
   Only the top_k likeliest tokens; 0 for all.
   */
  uint32_t top_k;
  /*
   Only the likeliest tokens that together reach this probability; 1 for all.
   */
  float top_p;
  /*
   Only tokens at least this likely relative to the likeliest; 0 for all.
   */
  float min_p;
  /*
   The same seed gives the same tokens on every machine.
   */
  uint64_t seed;
} qsf_sampling;

/*
 Gets a piece of the text, in UTF-8 without a zero at its end, in the thread that called. false ends the generation.
 */
typedef bool (*qsf_on_text)(const char *text, size_t length, void *user_data);

/*
 What a generation took.
 */
typedef struct {
  /*
   Tokens of the prompt.
   */
  uint64_t prompt_tokens;
  /*
   Tokens that were generated.
   */
  uint64_t tokens;
  /*
   Seconds up to the first token.
   */
  double prompt_seconds;
  /*
   Seconds of all others.
   */
  double decode_seconds;
  /*
   How it ended.
   */
  qsf_stop stop;
} qsf_stats;

/*
 What a model is.
 */
typedef struct {
  /*
   Tokens of the vocabulary: as many logits has a position.
   */
  uint32_t vocab;
  /*
   Positions that a text may take here.
   */
  uint32_t context;
  /*
   Layers.
   */
  uint32_t layers;
  /*
   Width of the residual stream.
   */
  uint32_t hidden;
  /*
   Query heads of a layer.
   */
  uint32_t heads;
  /*
   Key and value heads of a layer.
   */
  uint32_t kv_heads;
  /*
   Width of a head.
   */
  uint32_t head_dim;
  /*
   Token that starts a text, or -1.
   */
  int64_t bos;
  /*
   Token that ends a text, the first of several, or -1.
   */
  int64_t eos;
} qsf_model_info;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The version of the library, such as "0.1.0".
 */
const char *qsf_version(void);

/*
 What the last call that failed in this thread said, in English: file, place, what was expected and found. Valid until the next
 call of this library in this thread. Never NULL.
 */
const char *qsf_last_error(void);

/*
 Options of which none is set. To be freed by qsf_options_free.
 */
qsf_options *qsf_options_new(void);

/*
 Sets an option. Values are written as on a command line ("200MB", "8bit,4bit"); a flag is "true" or "false". Whether there is
 such an option is checked where the options are used.
 */
qsf_status qsf_options_set(qsf_options *options,
                           const char *name,
                           const char *value);

/*
 Frees options. NULL is nothing.
 */
void qsf_options_free(qsf_options *options);

/*
 A flag that is not raised. To be freed by qsf_cancel_free.
 */
qsf_cancel *qsf_cancel_new(void);

/*
 Stops, soon and for good, all work that has this flag. Any thread may call it. NULL is nothing.
 */
void qsf_cancel_request(const qsf_cancel *cancel);

/*
 Frees a flag that no work has any longer. NULL is nothing.
 */
void qsf_cancel_free(qsf_cancel *cancel);

/*
 The defaults of qsf-run: temperature 0.7, top_k 40, top_p 0.9, min_p 0, and seed 0.
 */
qsf_sampling qsf_sampling_default(void);

/*
 Continues a prompt. With chat it is what a user says, which goes into the model's chat template, behind system_prompt.
 max_tokens 0: 256, or what the context leaves. system_prompt, sampling (the defaults), on_text, cancel and stats may be NULL.

 A generation that the callback or a cancellation ends gives QSF_OK, and stats say so.
 */
qsf_status qsf_generate(const qsf_model *model,
                        const char *prompt,
                        bool chat,
                        const char *system_prompt,
                        size_t max_tokens,
                        const qsf_sampling *sampling,
                        qsf_on_text on_text,
                        void *user_data,
                        const qsf_cancel *cancel,
                        qsf_stats *stats);

/*
 Opens and loads a model: a QSF file, a HuggingFace directory or a GGUF file. Every byte that is used is checked first. Options are
 those of qsf-run: "threads", "ram_budget", "huge_pages", "ctx_size", "kv_type", "kv_window", "activations", "quality",
 "head", "early_exit"; options may be NULL. The model is to be freed by qsf_model_free.
 */
qsf_status qsf_model_open(const char *path,
                          const qsf_options *options,
                          qsf_model **model);

/*
 Frees a model. Its sessions stay valid. NULL is nothing.
 */
void qsf_model_free(qsf_model *model);

/*
 What the model is.
 */
qsf_status qsf_model_describe(const qsf_model *model, qsf_model_info *info);

/*
 The tokens of a text, with those that the tokenizer itself adds. Writes at most capacity ids, and to length how many there are:
 with QSF_BUFFER_TOO_SMALL the size that is needed.
 */
qsf_status qsf_tokenize(const qsf_model *model,
                        const char *text,
                        uint32_t *ids,
                        size_t capacity,
                        size_t *length);

/*
 The text of tokens, in UTF-8 without a zero at its end; with skip_special without special tokens. Writes at most capacity bytes,
 and to length how many there are: with QSF_BUFFER_TOO_SMALL the size that is needed.
 */
qsf_status qsf_detokenize(const qsf_model *model,
                          const uint32_t *ids,
                          size_t count,
                          bool skip_special,
                          char *text,
                          size_t capacity,
                          size_t *length);

/*
 A session without tokens, with room for context positions (0: what the model allows). cancel, which may be NULL, ends its
 steps. The session is to be freed by qsf_session_free; it may outlive the model.
 */
qsf_status qsf_session_new(const qsf_model *model,
                           size_t context,
                           const qsf_cancel *cancel,
                           qsf_session **session);

/*
 Frees a session. NULL is nothing.
 */
void qsf_session_free(qsf_session *session);

/*
 Runs tokens through the model, behind those before. When it fails, the session has as many tokens as before.
 */
qsf_status qsf_session_forward(const qsf_session *session,
                               const uint32_t *ids,
                               size_t count);

/*
 Logits of the token that comes next, vocab floats. Writes at most capacity, and to length how many there are.
 */
qsf_status qsf_session_logits(const qsf_session *session,
                              float *logits,
                              size_t capacity,
                              size_t *length);

/*
 Chooses the token that comes next. The same session and sampling give the same token; for a text of many tokens give each a seed
 of its own, such as the seed of the text plus its position.
 */
qsf_status qsf_session_sample(const qsf_session *session,
                              const qsf_sampling *sampling,
                              uint32_t *id);

/*
 Tokens that the session has.
 */
qsf_status qsf_session_position(const qsf_session *session, size_t *position);

/*
 Forgets all tokens from position on. There are no logits then, before other tokens have been run.
 */
qsf_status qsf_session_rewind(const qsf_session *session, size_t position);

/*
 Reads every byte of a QSF file and compares all checksums. Nothing of it is run.
 */
qsf_status qsf_verify(const char *path);

/*
 What qsf-inspect --json prints of a file, with tensors that of --tensors. The text is to be freed by qsf_string_free.
 */
qsf_status qsf_inspect_json(const char *path,
                            bool tensors,
                            char **json);

/*
 What qsf-eval --json prints: the perplexity of a model on a text file, and with a base its divergence from that. Options are those
 of qsf-eval ("ctx", "chunks", "ram_budget", "kv_type"). base, options and cancel may be NULL. The text is to be freed by
 qsf_string_free.
 */
qsf_status qsf_evaluate_json(const char *model,
                             const char *text_file,
                             const char *base,
                             const qsf_options *options,
                             const qsf_cancel *cancel,
                             char **json);

/*
 Frees a text that this library gave. NULL is nothing.
 */
void qsf_string_free(char *text);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* QSF_H */
