//! What a batch says of the memory of its jobs: it decides by that how many run side by side.

use qsf_tests::*;
use serde_json::{Value, json};

use crate::batch::Place;

/// Jobs of every kind that a conversion can be, on models of 0.3 to 17 million weights.
fn jobs() -> Vec<Value> {
    let demo = shared("models/demo-1m");
    let gpt2 = shared("models/gpt2-17m");
    let text = shared("text/calibration.txt");
    let mut jobs = vec![
        json!({ "model": demo, "quant": "4bit" }),
        json!({ "model": shared("gguf/stories260K.gguf"), "quant": "8bit" }),
        json!({ "model": shared("golden/qwen3_moe"), "quant": "4bit" }),
        json!({ "model": gpt2, "quant": "4bit" }),
        json!({ "model": gpt2, "quant": "f16" }),
        json!({ "model": gpt2, "quant": "3bit", "compress": "zstd" }),
        json!({ "model": gpt2, "quant": "2bit", "outliers": "1%" }),
        json!({ "model": demo, "quant": "4bit", "clusters": true }),
        json!({ "model": gpt2, "quant": "4bit", "eval_text": text, "eval_chunks": 1 }),
        json!({ "model": gpt2, "stats_out": "moments.stats", "quant": "4bit", "calibration": text,
                "calibration_tokens": 512 }),
        json!({ "model": demo, "quant": "3bit", "calibration": text, "calibration_tokens": 4096 }),
        json!({ "model": demo, "target_size": "500kB", "calibration": text, "calibration_tokens": 1024 }),
        json!({ "model": demo, "target_size": "500kB", "effort": "max", "calibration": text,
                "calibration_tokens": 512 }),
        json!({ "model": demo, "quant": "4bit", "early_exit": true, "calibration": text,
                "calibration_tokens": 512 }),
    ];
    for (i, job) in jobs.iter_mut().enumerate() {
        job["output"] = json!(format!("{i}.qsf"));
    }
    jobs
}

/// Less than nine tenths would let a batch take what the machine does not have; far more would leave cores idle.
#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn predictions_of_memory_are_near_what_jobs_take() {
    let place = Place::new();
    let jobs = jobs();
    place.list(&jobs);
    place.summary("--jobs 2 --threads 2", 0);
    let records = place.records();
    assert_eq!(records.len(), jobs.len());
    for record in records {
        let bytes = |field: &str| record[field].as_u64().unwrap_or_else(|| panic!("{field}: {record}"));
        let (predicted, peak) = (bytes("predicted_peak_rss_bytes"), bytes("peak_rss_bytes"));
        let ratio = predicted as f64 / peak as f64;
        assert!(
            (0.9..2.5).contains(&ratio),
            "{}: predicted {predicted}, took {peak}: {}",
            record["output"],
            record["options"]
        );
    }
}
