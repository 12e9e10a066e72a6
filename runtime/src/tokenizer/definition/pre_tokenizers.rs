//! How byte-level tokenizers split a text into words, by the names that GGUF files have for it (`tokenizer.ggml.pre`). The
//! expressions are those of the models' own `tokenizer.json` where known, otherwise those of llama.cpp
//! (`src/llama-vocab.cpp`), applied one after the other, each to the pieces that those before it left.

/// Expressions that split a text into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Splits {
    /// Runs of punctuation are words of their own, before any pattern is looked for. This is not `\p{P}`: the library has
    /// a table of its own, of an older Unicode.
    pub punctuation: bool,
    /// What matches is a piece of its own, and so is what lies between.
    pub patterns: &'static [&'static str],
    /// A word that is a token as a whole is that token, whatever merges would make of it.
    pub ignore_merges: bool,
}

/// A kind of pre-tokenizer.
#[derive(Debug, Clone, Copy)]
pub(super) struct PreTokenizer {
    /// Its names in GGUF files.
    names: &'static [&'static str],
    /// How a text is split.
    pub splits: Splits,
    /// Whether the start token goes before a text where the file does not say.
    pub add_bos: bool,
}

/// The kind of that name.
pub(super) fn pre_tokenizer(name: &str) -> Option<&'static PreTokenizer> {
    ALL.iter().copied().find(|kind| kind.names.contains(&name))
}

/// llama.cpp's name for a text that is split by these patterns, one after the other.
pub(super) fn name_of(patterns: &[&str], punctuation: bool, ignore_merges: bool) -> Option<&'static str> {
    let is_it = |kind: &&PreTokenizer, merges: bool| {
        kind.splits.patterns == patterns
            && kind.splits.punctuation == punctuation
            && (!merges || kind.splits.ignore_merges == ignore_merges)
    };
    // A vocabulary in which every token is reached by merges is split alike either way.
    let found = |merges| ALL.iter().copied().find(|kind| is_it(kind, merges));
    found(true).or_else(|| found(false)).and_then(|kind| kind.names.first().copied())
}

/// All names, for messages.
pub(super) fn names() -> Vec<&'static str> {
    ALL.iter().flat_map(|kind| kind.names).copied().collect()
}

const ALL: [&PreTokenizer; 26] = [
    &GPT2,
    &LLAMA3,
    &QWEN2,
    &QWEN35,
    &DBRX,
    &GLM4,
    &MINICPM5,
    &JAIS2,
    &STARCODER,
    &FALCON,
    &GPT4O,
    &TEKKEN,
    &DEEPSEEK_LLM,
    &DEEPSEEK_CODER,
    &DEEPSEEK_V3,
    &YOUTU,
    &BLOOM,
    &VIKING,
    &SUPERBPE,
    &BAILINGMOE,
    &SEED_CODER,
    &EXAONE_MOE,
    &UFAKZEKA,
    &LAGUNA,
    &KIMI_K2,
    &DEFAULT,
];

const fn kind(
    names: &'static [&'static str],
    patterns: &'static [&'static str],
    ignore_merges: bool,
    add_bos: bool,
) -> PreTokenizer {
    PreTokenizer { names, splits: Splits { punctuation: false, patterns, ignore_merges }, add_bos }
}

/// GPT-2 and those that kept its words.
pub(super) const GPT2: PreTokenizer = kind(
    &[
        "gpt-2",
        "phi-2",
        "mpt",
        "olmo",
        "jais",
        "gigachat",
        "a.x-4.0",
        "mellum",
        "exaone4",
        "trillion",
        "granite-docling",
        "jina-es",
        "jina-de",
    ],
    &[GPT2_WORDS],
    false,
    false,
);
/// LLaMA 3: digits in groups of three.
const LLAMA3: PreTokenizer = kind(
    &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
    &[THREE_DIGITS],
    true,
    true,
);
/// Qwen 2: digits one by one.
pub(super) const QWEN2: PreTokenizer = kind(
    &["qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"],
    &[ONE_DIGIT],
    false,
    false,
);
/// Qwen 3.5: marks belong to their letters.
const QWEN35: PreTokenizer = kind(
    &["qwen35"],
    &[
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    false,
    false,
);
/// GPT-4's words, with merges only.
const DBRX: PreTokenizer = kind(&["dbrx", "smaug-bpe", "chatglm-bpe"], &[THREE_DIGITS], false, false);
/// GPT-4's words, where a word that is a token is that token.
const GLM4: PreTokenizer = kind(&["glm4", "glm5"], &[THREE_DIGITS], true, false);
/// MiniCPM 5.
const MINICPM5: PreTokenizer = kind(
    &["minicpm5"],
    &[
        r"\p{N}{1,3}",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    true,
    false,
);
/// Jais 2: white space in powers of two.
const JAIS2: PreTokenizer = kind(
    &["jais-2"],
    &[
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}",
    ],
    false,
    false,
);
/// StarCoder and others that take digits one by one, then GPT-2's words.
const STARCODER: PreTokenizer = kind(
    &["starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"],
    &[r"\p{N}", GPT2_WORDS],
    false,
    false,
);
/// Falcon: runs of punctuation, GPT-2's words, digits by three.
const FALCON: PreTokenizer = PreTokenizer {
    names: &["falcon"],
    splits: Splits { punctuation: true, patterns: &[GPT2_WORDS, "[0-9][0-9][0-9]"], ignore_merges: false },
    add_bos: false,
};
/// GPT-4o: words begin with an upper-case letter.
const GPT4O: PreTokenizer = kind(
    &["gpt-4o", "llama4", "kanana2", "minimax-m2"],
    &[
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    false,
    false,
);
/// Mistral's Tekken.
const TEKKEN: PreTokenizer = kind(
    &["tekken"],
    &[
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    true,
    true,
);
/// DeepSeek LLM.
const DEEPSEEK_LLM: PreTokenizer = kind(
    &["deepseek-llm"],
    &[
        r"[\r\n]",
        r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
        r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
        r"\s+$",
        r"[一-龥ࠀ-一가-퟿]+",
        r"\p{N}+",
    ],
    false,
    false,
);
/// DeepSeek Coder.
const DEEPSEEK_CODER: PreTokenizer = kind(
    &["deepseek-coder"],
    &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
    false,
    false,
);
/// DeepSeek V3.
const DEEPSEEK_V3: PreTokenizer = kind(
    &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
    &[
        r"\p{N}{1,3}",
        r"[一-龥぀-ゟ゠-ヿ]+",
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
    ],
    false,
    false,
);
/// Youtu: scripts of East Asia on their own.
const YOUTU: PreTokenizer = kind(
    &["youtu"],
    &[
        r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    true,
    false,
);
/// BLOOM: everything but white space and punctuation.
const BLOOM: PreTokenizer =
    kind(&["bloom", "poro-chat", "gpt3-finnish"], &[r" ?[^(\s|.,!?…。，、।۔،)]+"], false, false);
/// Viking: the same, digits one by one.
const VIKING: PreTokenizer = kind(&["viking"], &[r" ?[^(\s|.,!?…。，、।۔،)]+", r"\p{N}"], false, false);
/// SuperBPE: tokens across words; digits by three from the right.
const SUPERBPE: PreTokenizer = kind(&["superbpe"], &[r"\p{N}+", r"(?=(\d{3})+(?!\d))"], false, false);
/// Bailing MoE.
const BAILINGMOE: PreTokenizer = kind(
    &["bailingmoe", "bailingmoe2", "llada-moe"],
    &[
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    ],
    false,
    false,
);
/// Seed Coder.
const SEED_CODER: PreTokenizer = kind(
    &["seed-coder"],
    &[
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    false,
    false,
);
/// EXAONE MoE.
const EXAONE_MOE: PreTokenizer = kind(
    &["exaone-moe"],
    &[
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
    ],
    false,
    false,
);
/// Qwen 2's words without English contractions.
const UFAKZEKA: PreTokenizer = kind(
    &["ufakzeka"],
    &[r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    false,
    false,
);
/// Laguna: lines first.
const LAGUNA: PreTokenizer = kind(&["laguna"], &[r"[^\n]+|[\n]+", ONE_DIGIT], false, false);
/// Kimi K2: Han characters on their own, and words as in GPT-4o. Its tokenizer has the intersections of classes
/// (`[\p{Lu}...&&[^\p{Han}]]`), which are looked ahead for here.
const KIMI_K2: PreTokenizer = kind(
    &["kimi-k2"],
    &[
        r"\p{Han}+|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    true,
    false,
);
/// What llama.cpp takes where a file names nothing, as old files do.
const DEFAULT: PreTokenizer =
    kind(&["default"], &[r"[\p{P}\$\+<=>\^~\|]+", GPT2_WORDS, r"\p{N}+", r"[0-9][0-9][0-9]"], false, false);

/// Contractions, words with a space before them, numbers, other characters; the last white space goes to the next word.
const GPT2_WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// The words of GPT-4: the character before a word belongs to it, digits by three.
const THREE_DIGITS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The words of GPT-4 with digits one by one.
const ONE_DIGIT: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
