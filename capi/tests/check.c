/* What a caller relies on. Arguments: a model, a damaged copy of it, a text file, how often to load and free. Built with and without
 * AddressSanitizer, which finds leaks, too. */
#include <pthread.h>
#include <qsf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                               \
    do {                                                                                               \
        if (!(condition)) {                                                                            \
            fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, qsf_last_error());      \
            exit(1);                                                                                   \
        }                                                                                              \
    } while (0)

enum { TOKENS = 24, THREADS = 8 };
static const char *PROMPT = "Once upon a time";

typedef struct {
    char text[4096];
    size_t length;
    int pieces, most;
} sink;

static bool take(const char *text, size_t length, void *user_data) {
    sink *into = user_data;
    CHECK(into->length + length < sizeof into->text);
    memcpy(into->text + into->length, text, length);
    into->length += length;
    return ++into->pieces != into->most;
}

static qsf_sampling greedy(void) {
    qsf_sampling sampling = qsf_sampling_default();
    sampling.temperature = 0;
    return sampling;
}

static void generate(const qsf_model *model, sink *into) {
    qsf_sampling sampling = greedy();
    memset(into, 0, sizeof *into);
    CHECK(qsf_generate(model, PROMPT, false, NULL, TOKENS, &sampling, take, into, NULL, NULL) == QSF_OK);
}

static void *generate_in_thread(void *model) {
    sink *into = malloc(sizeof *into);
    generate(model, into);
    return into;
}

static void errors(const char *path, const char *damaged, const qsf_model *model) {
    qsf_model *none = NULL;
    qsf_options *options = qsf_options_new();
    size_t length = 7;
    uint32_t id;
    CHECK(qsf_model_open(NULL, NULL, &none) == QSF_USAGE && strstr(qsf_last_error(), "path is NULL"));
    CHECK(qsf_model_open(path, NULL, NULL) == QSF_USAGE);
    CHECK(qsf_model_open("/there/is/none.qsf", NULL, &none) == QSF_BAD_INPUT && none == NULL);
    CHECK(qsf_model_open(damaged, NULL, &none) == QSF_BAD_INPUT && strstr(qsf_last_error(), "CRC32"));
    CHECK(qsf_verify(damaged) == QSF_BAD_INPUT && qsf_verify(path) == QSF_OK);
    CHECK(qsf_options_set(options, "kv_tipe", "8bit") == QSF_OK);
    CHECK(qsf_model_open(path, options, &none) == QSF_USAGE && strstr(qsf_last_error(), "kv_type"));
    qsf_options_free(options);
    options = qsf_options_new();
    CHECK(qsf_options_set(options, "ram_budget", "1MB") == QSF_OK);
    CHECK(qsf_model_open(path, options, &none) == QSF_OUT_OF_SPACE);
    qsf_options_free(options);
    CHECK(qsf_tokenize(model, "\xff", NULL, 0, &length) == QSF_USAGE && strstr(qsf_last_error(), "UTF-8"));
    CHECK(qsf_tokenize(model, PROMPT, NULL, 0, &length) == QSF_BUFFER_TOO_SMALL && length > 1);
    CHECK(qsf_tokenize(model, PROMPT, &id, 1, &length) == QSF_BUFFER_TOO_SMALL);
    CHECK(qsf_generate(model, PROMPT, false, "Be short.", 1, NULL, NULL, NULL, NULL, NULL) == QSF_USAGE);
    CHECK(qsf_generate(model, PROMPT, false, NULL, 1000000, NULL, NULL, NULL, NULL, NULL) == QSF_USAGE);
    qsf_model_free(NULL);
    qsf_session_free(NULL);
    qsf_string_free(NULL);
    qsf_options_free(NULL);
    qsf_cancel_free(NULL);
    qsf_cancel_request(NULL);
}

/* A session, token by token, gives the text of qsf_generate; so it does again after it was rewound. */
static void sessions(const qsf_model *model, const sink *expected) {
    uint32_t prompt[64 + TOKENS], ids[TOKENS];
    size_t count, length, position;
    char text[4096];
    qsf_session *session = NULL;
    qsf_sampling sampling = greedy();
    CHECK(qsf_tokenize(model, PROMPT, prompt, 64, &count) == QSF_OK);
    CHECK(qsf_session_new(model, 0, NULL, &session) == QSF_OK);
    CHECK(qsf_session_sample(session, &sampling, ids) == QSF_USAGE);
    for (int round = 0; round < 2; round++) {
        CHECK(qsf_session_forward(session, prompt, count) == QSF_OK);
        for (int i = 0; i < TOKENS; i++) {
            CHECK(qsf_session_sample(session, &sampling, &ids[i]) == QSF_OK);
            CHECK(qsf_session_forward(session, &ids[i], 1) == QSF_OK);
        }
        CHECK(qsf_session_position(session, &position) == QSF_OK && position == count + TOKENS);
        memcpy(prompt + count, ids, sizeof ids);
        CHECK(qsf_detokenize(model, prompt, count + TOKENS, true, text, sizeof text, &length) == QSF_OK);
        CHECK(length == strlen(PROMPT) + expected->length);
        CHECK(memcmp(text + strlen(PROMPT), expected->text, expected->length) == 0);
        CHECK(qsf_session_rewind(session, 0) == QSF_OK);
    }
    uint32_t beyond = UINT32_MAX;
    CHECK(qsf_session_forward(session, &beyond, 1) == QSF_USAGE);
    CHECK(qsf_session_position(session, &position) == QSF_OK && position == 0);
    CHECK(qsf_session_rewind(session, 5) == QSF_USAGE);
    qsf_session_free(session);
}

static void stops(const qsf_model *model) {
    sink into = {.most = 3};
    qsf_stats stats;
    qsf_sampling sampling = greedy();
    CHECK(qsf_generate(model, PROMPT, false, NULL, TOKENS, &sampling, take, &into, NULL, &stats) == QSF_OK);
    CHECK(into.pieces == 3 && stats.stop == QSF_STOP_INTERRUPTED && stats.tokens < TOKENS);
    qsf_cancel *cancel = qsf_cancel_new();
    qsf_cancel_request(cancel);
    qsf_status status = qsf_generate(model, PROMPT, false, NULL, TOKENS, &sampling, NULL, NULL, cancel, &stats);
    CHECK(status == QSF_INTERRUPTED || (status == QSF_OK && stats.stop == QSF_STOP_INTERRUPTED));
    qsf_cancel_free(cancel);
}

static void documents(const char *path, const char *text) {
    char *json = NULL;
    qsf_options *options = qsf_options_new();
    CHECK(qsf_inspect_json(path, true, &json) == QSF_OK && strstr(json, "\"tensors\""));
    qsf_string_free(json);
    CHECK(qsf_options_set(options, "ctx", "64") == QSF_OK && qsf_options_set(options, "chunks", "2") == QSF_OK);
    CHECK(qsf_evaluate_json(path, text, NULL, options, NULL, &json) == QSF_OK && strstr(json, "\"ppl\""));
    qsf_string_free(json);
    qsf_options_free(options);
}

int main(int argc, char **argv) {
    CHECK(argc == 5);
    qsf_model *model = NULL;
    qsf_model_info info;
    sink alone;
    CHECK(qsf_model_open(argv[1], NULL, &model) == QSF_OK);
    CHECK(qsf_model_describe(model, &info) == QSF_OK && info.layers > 0 && info.vocab > 0 && info.context > TOKENS);
    generate(model, &alone);
    CHECK(alone.pieces > 5);
    errors(argv[1], argv[2], model);
    sessions(model, &alone);
    stops(model);
    documents(argv[1], argv[3]);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, generate_in_thread, model) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *made;
        CHECK(pthread_join(threads[i], &made) == 0);
        CHECK(strcmp(((sink *)made)->text, alone.text) == 0);
        free(made);
    }
    qsf_model_free(model);
    for (int i = atoi(argv[4]); i > 0; i--) {
        CHECK(qsf_model_open(argv[1], NULL, &model) == QSF_OK);
        qsf_model_free(model);
    }
    puts(alone.text);
    return 0;
}
