//! What `--bench` found, and its forms. The fields are those of the JSON, described in docs/performance.md.

use qsf_format::human_bytes;
use qsf_runtime::Runner;
use qsf_runtime::bench::{ColdLoad, Speed, TestKind};
use serde::Serialize;
use serde_json::Value;

use super::bandwidth::BandwidthAround;
use super::sheet::{OutputFormat, Sheet};
use crate::console::print;
use crate::json_document::document;

#[derive(Debug, Serialize)]
pub(super) struct BenchReport {
    pub version: &'static str,
    pub model: String,
    /// What runs the model.
    pub device: String,
    pub isa: &'static str,
    pub activations: &'static str,
    /// Of keys and values.
    pub kv_type: String,
    /// The clusters that logits are made by; `None`: by the whole head.
    pub head: Option<Value>,
    /// Layers that are left out; `None`: all are run.
    pub layer_selection: Option<Value>,
    /// Adapters that are added.
    pub lora: Vec<Value>,
    /// The same for people, a line each.
    #[serde(skip)]
    pub lora_lines: Vec<String>,
    /// Those layers in a line for people.
    #[serde(skip)]
    pub layers_line: Option<String>,
    /// `None` where it depends on the token.
    pub weight_bytes_per_token: Option<u64>,
    /// Of all weights, those in pages of 2 MiB.
    pub huge_page_bytes: u64,
    /// As the files were found: mostly in the page cache.
    pub load_seconds: f64,
    pub cold_load: Option<ColdLoad>,
    /// What a RAM budget is spent on.
    pub streaming: Option<Value>,
    /// That budget in lines for people.
    #[serde(skip)]
    pub streaming_text: Option<String>,
    /// One per number of threads, where something was decoded, of models in memory.
    pub bandwidth: Vec<BandwidthAround>,
    pub rows: Vec<BenchRow>,
}

#[derive(Debug, Serialize)]
pub(super) struct BenchRow {
    pub name: String,
    pub threads: usize,
    #[serde(flatten)]
    pub speed: Speed,
    /// Of decoding: weights read per second, in GB (10^9 bytes).
    pub gb_per_second: Option<f64>,
    /// Of decoding: that rate as a part of the read bandwidth of as many threads; above 1 where weights stay in the caches, or fetching
    /// ahead is faster than a plain sum.
    pub bandwidth_share: Option<f64>,
}

impl BenchRow {
    pub fn new(
        threads: usize,
        speed: Speed,
        weight_bytes: Option<u64>,
        bandwidth: Option<BandwidthAround>,
    ) -> BenchRow {
        let decode = speed.test.kind == TestKind::Decode;
        let weight_bytes = weight_bytes.filter(|_| decode);
        // A step reads them once for all sequences.
        let steps = speed.tokens_per_second.mean / speed.test.sequences as f64;
        let rate = weight_bytes.map(|bytes| steps * bytes as f64 / 1e9);
        BenchRow {
            name: speed.test.name(),
            threads,
            gb_per_second: rate,
            bandwidth_share: rate.zip(bandwidth).map(|(rate, all)| rate / all.gb_per_second),
            speed,
        }
    }
}

impl BenchReport {
    /// Says what runs the model.
    pub fn of_runner<R: Runner>(&mut self, runner: &R) {
        self.device = runner.device();
        self.activations = runner.activations();
    }

    /// Adds what was measured with so many threads, and the read bandwidth of as many, where it is known.
    pub fn add_rows(&mut self, threads: usize, speeds: Vec<Speed>, bandwidth: Option<BandwidthAround>) {
        let bytes = self.weight_bytes_per_token;
        self.bandwidth.extend(bandwidth);
        self.rows.extend(speeds.into_iter().map(|speed| BenchRow::new(threads, speed, bytes, bandwidth)));
    }

    /// Prints it.
    ///
    /// # Errors
    /// When stdout cannot be written to.
    pub fn print(&self, format: OutputFormat) -> anyhow::Result<()> {
        print(&match format {
            OutputFormat::Table => self.text(),
            OutputFormat::Json => format!("{:#}\n", document("bench", serde_json::to_value(self)?)),
            OutputFormat::Csv => self.to_csv(),
            OutputFormat::Md => self.to_markdown(),
        })?;
        Ok(())
    }

    pub fn text(&self) -> String {
        let mut out = format!(
            "{}: {}, {} activations, {} KV cache, {}{}, loaded in {:.2} s\n",
            self.model,
            if self.device == "cpu" { self.isa } else { &self.device },
            self.activations,
            self.kv_type,
            self.weights_text(),
            huge_pages_text(self.huge_page_bytes),
            self.load_seconds
        );
        self.lora_lines.iter().chain(&self.layers_line).for_each(|line| out += &format!("{line}\n"));
        out += &self.sheet().to_table();
        for row in &self.rows {
            if let Some(layers) = row.speed.layers_per_token {
                out += &format!("{}, {} threads: {layers:.2} layers per token\n", row.name, row.threads);
            }
        }
        out += &self.bandwidth_lines();
        if let Some(parts) = self.breakdown() {
            out += &format!("\nmilliseconds per token\n{}", parts.to_table());
        }
        if let Some(matrices) = self.matrices() {
            out += &format!("\nmatrices that are multiplied together\n{}", matrices.to_table());
        }
        self.streaming_text.iter().for_each(|text| out += &format!("\n{text}"));
        self.cold_load.iter().for_each(|cold| out += &format!("\n{}", cold_text(cold)));
        out
    }

    fn weights_text(&self) -> String {
        match (self.weight_bytes_per_token, &self.head) {
            (Some(bytes), _) => format!("{} of weights per decoded token", human_bytes(bytes)),
            (None, Some(head)) => format!("head by {} of {} clusters", head["probed"], head["count"]),
            (None, None) => "an unknown amount of weights per decoded token".into(),
        }
    }

    pub fn to_markdown(&self) -> String {
        let more = self.breakdown().into_iter().chain(self.matrices());
        self.sheet().to_markdown()
            + &more.map(|sheet| format!("\n{}", sheet.to_markdown())).collect::<String>()
    }

    pub fn to_csv(&self) -> String {
        let optional = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let row = |row: &BenchRow| {
            let Speed { test, tokens_per_second: rate, .. } = &row.speed;
            let bandwidth = self.bandwidth.iter().find(|b| b.threads == row.threads);
            let mut cells = vec![
                self.model.clone(),
                self.isa.to_owned(),
                row.name.clone(),
                row.threads.to_string(),
                test.tokens.to_string(),
                test.depth.to_string(),
                test.sequences.to_string(),
                rate.samples.len().to_string(),
                rate.mean.to_string(),
                rate.stddev.to_string(),
                optional(row.gb_per_second),
                optional(bandwidth.map(|b| b.gb_per_second)),
                self.load_seconds.to_string(),
            ];
            let parts = row.speed.breakdown.iter().flat_map(|parts| parts.parts());
            cells.extend(parts.map(|(_, part)| part.ms_per_token.to_string()));
            cells.push(optional(row.speed.sampling_ms_per_token));
            cells
        };
        let header = vec![
            "model",
            "isa",
            "test",
            "threads",
            "tokens",
            "depth",
            "sequences",
            "repetitions",
            "tokens_per_second",
            "stddev",
            "gb_per_second",
            "read_bandwidth_gb_per_second",
            "load_seconds",
            "matmul_ms_per_token",
            "attention_ms_per_token",
            "elementwise_ms_per_token",
            "head_ms_per_token",
            "other_ms_per_token",
            "sampling_ms_per_token",
        ];
        Sheet { header, text_columns: 3, rows: self.rows.iter().map(row).collect() }.to_csv()
    }

    fn sheet(&self) -> Sheet {
        let optional = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let row = |row: &BenchRow| {
            let rate = &row.speed.tokens_per_second;
            vec![
                row.name.clone(),
                row.threads.to_string(),
                format!("{:.2}", rate.mean),
                format!("{:.2}", rate.stddev),
                optional(row.gb_per_second.map(|rate| format!("{rate:.2}"))),
                optional(row.bandwidth_share.map(|share| format!("{:.0} %", 100.0 * share))),
            ]
        };
        let header = vec!["test", "threads", "tokens/s", "+-", "GB/s", "of bandwidth"];
        Sheet { header, text_columns: 1, rows: self.rows.iter().map(row).collect() }
    }

    /// The bandwidth, and what is to be said about it.
    fn bandwidth_lines(&self) -> String {
        let all: Vec<String> = self.bandwidth.iter().map(BandwidthAround::text).collect();
        if all.is_empty() {
            return String::new();
        }
        let warnings = self.bandwidth.iter().filter_map(BandwidthAround::warning);
        warnings.fold(format!("read bandwidth of the machine: {}\n", all.join(", ")), |lines, warning| {
            lines + &warning + "\n"
        })
    }

    /// Where the time goes, where that was asked for.
    fn breakdown(&self) -> Option<Sheet> {
        let mut header = vec!["test", "threads", "all"];
        let mut rows = Vec::new();
        for row in &self.rows {
            let parts = row.speed.breakdown?.parts();
            let all: f64 = parts.iter().map(|(_, part)| part.ms_per_token).sum();
            let mut cells = vec![row.name.clone(), row.threads.to_string(), format!("{all:.3}")];
            for (name, part) in parts {
                if rows.is_empty() {
                    header.push(name);
                }
                cells.push(format!("{:.3} ({:.1} %)", part.ms_per_token, part.percent));
            }
            let sampling = row.speed.sampling_ms_per_token;
            cells.push(sampling.map_or("-".into(), |ms| format!("{ms:.3}")));
            rows.push(cells);
        }
        header.push("(sampling)");
        Some(Sheet { header, text_columns: 1, rows })
    }

    /// The same by matrices.
    fn matrices(&self) -> Option<Sheet> {
        let optional = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let mut rows = Vec::new();
        for row in &self.rows {
            let bandwidth = self.bandwidth.iter().find(|bandwidth| bandwidth.threads == row.threads);
            for share in &row.speed.matrices {
                let of_all = share.gb_per_second.zip(bandwidth).map(|(rate, all)| rate / all.gb_per_second);
                rows.push(vec![
                    row.name.clone(),
                    share.matrices.clone(),
                    row.threads.to_string(),
                    share.products.to_string(),
                    format!("{:.3} ({:.1} %)", share.time.ms_per_token, share.time.percent),
                    optional(share.gb_per_second.map(|rate| format!("{rate:.2}"))),
                    optional(of_all.map(|share| format!("{:.0} %", 100.0 * share))),
                    format!("{:.1}", share.gmac_per_second),
                ]);
            }
        }
        let header =
            vec!["test", "matrices", "threads", "products", "ms per token", "GB/s", "of bandwidth", "Gmac/s"];
        (!rows.is_empty()).then_some(Sheet { header, text_columns: 2, rows })
    }
}

fn huge_pages_text(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { format!(" ({} of all in huge pages)", human_bytes(bytes)) }
}

fn cold_text(cold: &ColdLoad) -> String {
    let mut out = format!(
        "from disk to the first token: {:.3} s; reading and checking the {} alone: {:.3} s; one token: {:.3} s\n\
         (first token - one token) / reading: {:.2}\n",
        cold.first_token_seconds,
        human_bytes(cold.file_bytes),
        cold.read_and_check_seconds,
        cold.decode_step_seconds,
        cold.ratio
    );
    if let Some(read) = cold.disk_bytes.filter(|&read| read < cold.file_bytes / 10 * 9) {
        out += &format!(
            "only {} came from the disk: something else keeps the rest in memory\n",
            human_bytes(read)
        );
    }
    out
}
