"""What lm-evaluation-harness asks of a model, by a qsf.Model. Texts become tokens as its own class for transformers makes them."""
import hashlib

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import (
    handle_stop_sequences, has_bos_prefix, normalize_gen_kwargs, postprocess_generated_text,
)
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tqdm import tqdm

import qsf

# Requests between two writes to the harness's cache.
SCORED_AT_ONCE = 512
# Texts that grow at once, where batch_size says nothing.
SEQUENCES = 64
# What the harness calls what generate has, and what that is called here.
SAMPLING = {"temperature": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p", "seed": "seed",
            "repetition_penalty": "repeat_penalty"}
# Where transformers samples and is told nothing.
UNTOLD = {"top_k": 50, "top_p": 1.0}


@register_model("qsf")
class QsfLM(TemplateLM):
    """A model in a QSF or GGUF file or a HuggingFace directory.

    pretrained: its path.
    batch_size: texts that grow at once; 1 and "auto" stand for 64, as results do not depend on it.
    max_length: positions that a text may take; by default those of the model.
    max_gen_toks: tokens to generate, where a task does not say.
    add_bos_token: whether texts begin with the tokenizer's start token; by default as the tokenizer says.
    prefix_token_id: what stands before a text without context.
    Others are options of qsf.Model: threads, ram_budget, kv_type, activations, quality, head and so on.
    """

    def __init__(self, pretrained, batch_size=1, max_batch_size=None, device=None, max_length=None, max_gen_toks=256,
                 add_bos_token=None, prefix_token_id=None, **options):
        super().__init__()
        # The harness names its own default where nobody names a device.
        if device not in (None, "cpu", "cuda:0"):
            raise qsf.UsageError(f"device is {device!r}: a model of qsf runs on the processor here")
        if max_length is not None:
            options["ctx_size"] = int(max_length)
        self.model = qsf.Model(pretrained, **options)
        sequences = SEQUENCES if str(batch_size).startswith("auto") else int(batch_size)
        sequences = sequences if sequences > 1 else SEQUENCES
        self.sequences = min(sequences, int(max_batch_size)) if max_batch_size else sequences
        self.default_tokens = int(max_gen_toks)
        self.add_bos_token = add_bos_token
        self.own_prefix = prefix_token_id
        self.pretrained = str(pretrained)

    @property
    def max_length(self):
        return self.model.context

    @property
    def eot_token_id(self):
        stop = self.model.config.get("stop_tokens") or []
        return stop[0] if stop else self.model.start_token

    @property
    def prefix_token_id(self):
        return self.model.start_token if self.own_prefix is None else self.own_prefix

    def tok_encode(self, string, add_special_tokens=None, **kwargs):
        special = add_special_tokens
        if special is None:
            special = self.add_bos_token
            prefix = self.prefix_token_id
            if prefix is not None and has_bos_prefix(string, self.model.detokenize([prefix], skip_special=False)):
                special = False
        return self.model.tokenize(string, add_special=special is None or bool(special))

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        found = []
        for request in tqdm(requests, disable=disable_tqdm, desc="Running loglikelihood_rolling requests"):
            (text,) = request.args
            windows = get_rolling_token_windows(
                token_list=self.tok_encode(text), prefix_token=self.prefix_token_id, max_seq_len=self.max_length, context_len=1,
            )
            pairs = [make_disjoint_window(window) for window in windows]
            likelihoods, _ = self.model.score([context for context, _ in pairs], [tokens for _, tokens in pairs])
            found.append(float(likelihoods.sum()))
            self.cache_hook.add_partial("loglikelihood_rolling", (text,), found[-1])
        return found

    def _loglikelihood_tokens(self, requests, disable_tqdm=False, **kwargs):
        # Those whose contexts begin alike follow each other, and what is alike is run once.
        order = sorted(range(len(requests)), key=lambda at: requests[at][1])
        found = [None] * len(requests)
        with tqdm(total=len(requests), disable=disable_tqdm, desc="Running loglikelihood requests") as bar:
            for start in range(0, len(order), SCORED_AT_ONCE):
                now = order[start:start + SCORED_AT_ONCE]
                likelihoods, greedy = self.model.score([requests[at][1] for at in now], [requests[at][2] for at in now])
                for at, likelihood, is_greedy in zip(now, likelihoods, greedy):
                    found[at] = (float(likelihood), bool(is_greedy))
                    if requests[at][0] is not None:
                        self.cache_hook.add_partial("loglikelihood", requests[at][0], found[at])
                bar.update(len(now))
        return found

    def generate_until(self, requests, disable_tqdm=False):
        asked = [request.args for request in requests]
        found = [None] * len(asked)
        alike = {}
        for at, (_, options) in enumerate(asked):
            alike.setdefault(repr(sorted(options.items(), key=str)), []).append(at)
        with tqdm(total=len(asked), disable=disable_tqdm, desc="Running generate_until requests") as bar:
            for numbers in alike.values():
                stop, options = self._generation(asked[numbers[0]][1])
                room = self.max_length - options["max_tokens"]
                if room <= 0:
                    raise qsf.UsageError(f"{options['max_tokens']} tokens to generate leave no room for a prompt in a context of "
                                         f"{self.max_length}: pass max_gen_toks")
                step = 4 * self.sequences
                for start in range(0, len(numbers), step):
                    now = numbers[start:start + step]
                    # Of prompts that are too long, the ends are taken.
                    prompts = [self.tok_encode(asked[at][0])[-room:] for at in now]
                    texts = self.model.batch_generate(prompts, sequences=self.sequences, **options)
                    for at, text in zip(now, texts):
                        found[at] = postprocess_generated_text(text, stop, None)
                        self.cache_hook.add_partial("generate_until", asked[at], found[at])
                    bar.update(len(now))
        return found

    def _generation(self, asked):
        """Stop texts, and options of generate, of what a task asks for."""
        options = dict(normalize_gen_kwargs(asked, self.default_tokens))
        eos = self.model.detokenize([self.eot_token_id], skip_special=False)
        stop = handle_stop_sequences(options.pop("until", None), eos=eos)
        ours = {"max_tokens": options.pop("max_gen_toks"), "stop": [text for text in stop if text], "temperature": 0.0}
        sampled = options.pop("do_sample", False)
        given = {name: options.pop(name) for name in [*SAMPLING] if name in options}
        if options.pop("num_beams", 1) != 1 or options:
            raise qsf.UsageError(f"a task asks for {', '.join(options) or 'num_beams'} of generation, which qsf does not have")
        if sampled:
            ours |= {SAMPLING[name]: value for name, value in (UNTOLD | given).items()}
        elif "repetition_penalty" in given:
            ours["repeat_penalty"] = given["repetition_penalty"]
        return stop, ours

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        messages = [{"role": message["role"], "content": message["content"]} for message in chat_history]
        text = self.model.chat_text(messages, prompt_reply=add_generation_prompt)
        if add_generation_prompt or not messages:
            return text
        # The last message goes on: nothing that ends it stays, as transformers does with continue_final_message.
        last = messages[-1]["content"].strip()
        return text[:text.rindex(last) + len(last)]

    def chat_template(self, chat_template=False):
        return self.model.chat_template if chat_template else None

    @property
    def tokenizer_name(self):
        """Names the tokenizer in keys of the harness's cache of requests."""
        return hashlib.sha256(self.pretrained.encode()).hexdigest()[:16]

    def get_model_info(self):
        return {"model_dtype": "qsf", "model_sha": "", "model_revision": ""}
