//! The options that `llama-imatrix` and `llama-perplexity` share with all programs that run a model.

use super::{Row, To::*, row};

pub(super) const BATCHES: &str =
    "leave it out: figures do not depend on how many tokens are run at once, and the program chooses that";
const CPU: &str = "leave it out: everything runs on the CPU, in memory that is mapped from the file";
const PLACES: &str = "leave it out: the system says where threads run; `taskset` and `nice` tell it";
const CACHE: &str = "leave it out: keys and values stay f32, and attention is computed as it is defined";
const KEYS: &str = "the file says it: `gguf-inspect set FILE KEY=VALUE` changes keys";
const LORA: &str = "merge the adapter first: `gguf-convert FOLDER --lora ADAPTER=SCALE`";
const HUB: &str = "give a file; `gguf-convert hf://OWNER/MODEL` makes one of a checkpoint on the Hub";
const LOG: &str = "leave it out: messages go to stderr, without a prefix, and the result to stdout";
const SAMPLING: &str = "leave it out: nothing is drawn at random";

pub(super) const ROWS: &[Row] = &[
    row(&["-h --help --usage"], Words(&["--help"])),
    row(&["--version"], Whole(&["--version"])),
    row(&["--completion-bash"], Whole(&["--completions", "bash"])),
    row(&["-m --model FILE"], Argument(0)),
    row(&["-f --file FILE", "-bf --binary-file FILE"], Option("--text", &[])),
    row(&["-c --ctx-size N"], Option("--context", &[])),
    row(&["--chunks N"], Option("--chunks", &["-1"])),
    row(&["-t --threads N"], Option("--threads", &["-1"])),
    row(&["--log-disable"], Words(&["--quiet"])),
    row(&["--offline"], Anyway("nothing is fetched")),
    row(&["-n --predict --n-predict N"], Told("leave it out: no token is generated")),
    row(
        &["-j --json-schema SCHEMA"],
        Other("leave it out: no token is generated; `-j N` is a number of threads"),
    ),
    row(&["-p --prompt TEXT"], Told("put the text into a file, and give that with `--text FILE`")),
    row(&["-tb --threads-batch N"], Told("leave it out: `-t N` is the number of threads for everything")),
    row(
        &[
            "-C --cpu-mask MASK",
            "-Cr --cpu-range RANGE",
            "--cpu-strict 01",
            "--prio N",
            "--poll N",
            "-Cb --cpu-mask-batch MASK",
            "-Crb --cpu-range-batch RANGE",
            "--cpu-strict-batch 01",
            "--prio-batch N",
            "--poll-batch N",
            "--numa KIND",
        ],
        Told(PLACES),
    ),
    row(
        &[
            "-b --batch-size N",
            "-ub --ubatch-size N",
            "-np --parallel N",
            "--keep N",
            "--swa-full",
            "--context-shift --no-context-shift",
        ],
        Told(BATCHES),
    ),
    row(
        &[
            "-fa --flash-attn MODE",
            "-ctk --cache-type-k TYPE",
            "-ctv --cache-type-v TYPE",
            "--spec-draft-type-k -ctkd --cache-type-k-draft TYPE",
            "--spec-draft-type-v -ctvd --cache-type-v-draft TYPE",
            "-dt --defrag-thold N",
        ],
        Told(CACHE),
    ),
    row(&["-e --escape --no-escape"], Told("leave it out: backslashes of a text are read as they are")),
    row(&["--perf --no-perf"], Told("leave it out: the speed is told at the end")),
    row(&["--check-tensors"], Told("`gguf-inspect verify FILE` checks every block of a file")),
    row(
        &[
            "--rope-scaling KIND",
            "--rope-scale N",
            "--rope-freq-base N",
            "--rope-freq-scale N",
            "--yarn-orig-ctx N",
            "--yarn-ext-factor N",
            "--yarn-attn-factor N",
            "--yarn-beta-slow N",
            "--yarn-beta-fast N",
            "--override-kv KEY=TYPE:VALUE",
        ],
        Told(KEYS),
    ),
    row(
        &[
            "-kvo --kv-offload -nkvo --no-kv-offload",
            "--repack -nr --no-repack",
            "--no-host",
            "--rpc SERVERS",
            "-lm --load-mode MODE",
            "-lzm --lazy-mode MODE",
            "-dev --device DEVICES",
            "--list-devices",
            "-ot --override-tensor PATTERN",
            "-cmoe --cpu-moe",
            "-ncmoe --n-cpu-moe N",
            "-ncffn --n-cpu-ffn N",
            "-ngl --gpu-layers --n-gpu-layers N",
            "-sm --split-mode MODE",
            "-ts --tensor-split PARTS",
            "-mg --main-gpu N",
            "-fit --fit MODE",
            "-fitt --fit-target SIZES",
            "-fitc --fit-ctx N",
            "--op-offload --no-op-offload",
        ],
        Told(CPU),
    ),
    row(&["--lora FILE", "--lora-scaled FILE:SCALE"], Told(LORA)),
    row(
        &[
            "--control-vector FILE",
            "--control-vector-scaled FILE:SCALE",
            "--control-vector-layer-range RANGE",
        ],
        Told("leave it out: control vectors are not applied"),
    ),
    row(
        &[
            "-cl --cache-list",
            "-mu --model-url URL",
            "-dr --docker-repo NAME",
            "-hf -hfr --hf-repo NAME",
            "-hff --hf-file FILE",
            "-hft --hf-token TOKEN",
        ],
        Told(HUB),
    ),
    row(&["--log-file FILE"], Told("`2> FILE` writes messages into a file")),
    row(&["--log-jsonl --no-log-jsonl"], Told("`--json` prints the result as JSON")),
    row(
        &["--log-colors MODE"],
        Told("leave it out: there is colour on a terminal, and none with NO_COLOR=1"),
    ),
    row(
        &[
            "-v --verbose --log-verbose",
            "-lv --verbosity --log-verbosity N",
            "--log-prefix --no-log-prefix",
            "--log-timestamps --no-log-timestamps",
        ],
        Told(LOG),
    ),
    row(
        &[
            "--samplers NAMES",
            "-s --seed N",
            "--sampler-seq --sampling-seq NAMES",
            "--ignore-eos",
            "--temp --temperature N",
            "--top-k N",
            "--top-p N",
            "--min-p N",
            "--top-nsigma --top-n-sigma N",
            "--xtc-probability N",
            "--xtc-threshold N",
            "--typical --typical-p N",
            "--repeat-last-n N",
            "--repeat-penalty N",
            "--presence-penalty N",
            "--frequency-penalty N",
            "--dry-multiplier N",
            "--dry-base N",
            "--dry-allowed-length N",
            "--dry-penalty-last-n N",
            "--dry-sequence-breaker TEXT",
            "--adaptive-target N",
            "--adaptive-decay N",
            "--dynatemp-range N",
            "--dynatemp-exp N",
            "--mirostat N",
            "--mirostat-lr N",
            "--mirostat-ent N",
            "-l --logit-bias TOKEN",
            "--grammar TEXT",
            "--grammar-file FILE",
            "-jf --json-schema-file FILE",
            "-bs --backend-sampling",
        ],
        Told(SAMPLING),
    ),
];

/// Options of older releases and of other programs.
pub(super) const HABITS: &[Row] = &[row(&["--mmap", "--no-mmap", "--mlock"], Told(CPU))];
