/* Continues a prompt:
 *
 *     cc generate.c $(pkg-config --cflags --libs qsf) -o generate
 *     ./generate demo-1m-4bit.qsf "It was a dark"
 */
#include <qsf.h>
#include <stdio.h>

static bool on_text(const char *text, size_t length, void *user_data) {
    fwrite(text, 1, length, (FILE *)user_data);
    return fflush((FILE *)user_data) == 0;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s MODEL PROMPT\n", argv[0]);
        return QSF_USAGE;
    }
    qsf_model *model = NULL;
    qsf_status status = qsf_model_open(argv[1], NULL, &model);
    if (status == QSF_OK) {
        qsf_sampling sampling = qsf_sampling_default();
        sampling.temperature = 0;
        qsf_stats stats;
        status = qsf_generate(model, argv[2], false, NULL, 24, &sampling, on_text, stdout, NULL, &stats);
        if (status == QSF_OK)
            fprintf(stderr, "\n%llu tokens in %.3f s\n", (unsigned long long)stats.tokens,
                    stats.prompt_seconds + stats.decode_seconds);
    }
    if (status != QSF_OK)
        fprintf(stderr, "error: %s\n", qsf_last_error());
    qsf_model_free(model);
    return (int)status;
}
