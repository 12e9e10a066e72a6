//! `--attention`: where the model looks while it reads a prompt, as a safetensors file.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use qsf_format::{PartialFile, human_bytes};
use qsf_runtime::attention::{AttentionArray, AttentionPlan, AttentionSink, LayerLook, attention};
use qsf_runtime::{Decoder, KvOptions, Result, RuntimeError, disk};
use serde_json::{Map, Value, json};

use super::args::RunArgs;
use super::session::Session;
use crate::console::{print, print_json};
use crate::json_document::document;
use crate::model_args::LoraReport;
use crate::model_name::model_name;

/// Most bytes of a snapshot: what a disk takes without being asked, and other programs read whole.
const MAX_BYTES: u64 = 8 << 30;
/// Left on the disk.
const SPARE_BYTES: u64 = 64 << 20;

/// Runs the prompt and writes the file.
pub(super) fn write_attention(
    decoder: &Decoder,
    args: &RunArgs,
    session: &Session,
    path: &Path,
) -> anyhow::Result<()> {
    let flags = &args.look;
    let config = &decoder.model().config;
    let plan = AttentionPlan::new(config, session.prompt.len(), flags.attention_layers.as_deref())?;
    let advice = "take a shorter prompt, or some of the layers (--attention-layers)";
    plan.check(MAX_BYTES, advice)?;
    if let Some(free) = disk::free_bytes(path) {
        plan.check(free.saturating_sub(SPARE_BYTES), advice)?;
    }
    let name = model_name(session.open.source().path());
    let layers = layers(&plan, decoder);
    let header = header(&plan, &about(session, &name, &layers)?)?;
    let (mut target, file) = PartialFile::create(path, flags.force)?;
    let mut snapshot = Snapshot::new(path, file, header, &plan.arrays)?;
    // Nothing is generated that must be as with the default, so what is shown is not rounded unless that is asked for.
    let kv = if args.kv.kv_type.is_some() { session.kv } else { KvOptions::default() };
    attention(decoder, &session.prompt, &plan, kv, &mut snapshot)?;
    let bytes = snapshot.end;
    target.publish(&snapshot.file)?;
    if args.json {
        let values = json!({
            "model": name,
            "file": path.display().to_string(),
            "bytes": bytes,
            "tokens": session.prompt.len(),
            "token_ids": session.prompt,
            "layers": layers,
            "lora": session.shortcuts.lora.iter().map(LoraReport::to_json).collect::<Vec<_>>(),
        });
        print_json(&document("attention", values))?;
    } else {
        let (tokens, count) =
            (session.prompt.len(), layers.iter().filter(|layer| !layer["heads"].is_null()).count());
        print(&format!(
            "{}: {tokens} tokens, {count} of {} layers, {}\n",
            path.display(),
            config.layers,
            human_bytes(bytes)
        ))?;
    }
    Ok(())
}

/// What is said of each layer of the model, those without attention among them.
fn layers(plan: &AttentionPlan, decoder: &Decoder) -> Vec<Value> {
    let config = &decoder.model().config;
    let of_layer = |layer: u32| {
        let look = LayerLook::of(config, layer);
        let shown = plan.arrays.iter().any(|array| array.layer == layer);
        let shape = shown.then(|| config.attention_shape(layer));
        json!({
            "layer": layer,
            "kind": look.name(),
            "size": look.size(),
            "heads": shown.then_some(config.heads),
            "kv_heads": shape.map(|shape| shape.kv_heads),
            "key_size": shape.map(|shape| shape.key_dim),
            "keys_of": shown.then(|| config.kv_source(layer)),
        })
    };
    (0..config.layers).map(of_layer).collect()
}

/// What the file says of itself: names and texts, as the format has them.
fn about(session: &Session, name: &str, layers: &[Value]) -> Result<Value> {
    let pieces = match &session.tokenizer {
        Some(tokenizer) => {
            let pieces = session.prompt.iter().map(|token| tokenizer.decode(&[*token], false));
            Some(pieces.collect::<Result<Vec<_>>>()?)
        }
        None => None,
    };
    let mut about = json!({
        "format": "pt",
        "document": "attention",
        "schema": "1",
        "model": name,
        "token_ids": json!(session.prompt).to_string(),
        "layers": json!(layers).to_string(),
    });
    if let Some(pieces) = pieces {
        about["tokens"] = json!(json!(pieces).to_string());
    }
    Ok(about)
}

/// The beginning of the file, up to the values.
fn header(plan: &AttentionPlan, about: &Value) -> Result<Vec<u8>> {
    let (mut members, mut end) = (Map::new(), 0);
    members.insert("__metadata__".into(), about.clone());
    for array in &plan.arrays {
        let first = end;
        end += array.bytes();
        let place = json!({"dtype": "F32", "shape": array.shape, "data_offsets": [first, end]});
        members.insert(array.name(), place);
    }
    let mut json = serde_json::to_vec(&members)
        .map_err(|e| RuntimeError::Request(format!("the header cannot be written as JSON: {e}")))?;
    // Values are aligned to 8 bytes, as the library of the format does it.
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut header = (json.len() as u64).to_le_bytes().to_vec();
    header.append(&mut json);
    Ok(header)
}

/// A file that is filled in any order. What no token sees stays 0.
struct Snapshot<'a> {
    path: &'a Path,
    file: File,
    /// Where values of each array begin, and its rows and columns.
    arrays: Vec<(u64, [usize; 2])>,
    end: u64,
    bytes: Vec<u8>,
}

impl<'a> Snapshot<'a> {
    fn new(
        path: &'a Path,
        mut file: File,
        header: Vec<u8>,
        arrays: &[AttentionArray],
    ) -> Result<Snapshot<'a>> {
        let mut end = header.len() as u64;
        let place = |array: &AttentionArray| {
            let first = end;
            end += array.bytes();
            (first, [array.shape[1], array.shape[2]])
        };
        let arrays = arrays.iter().map(place).collect();
        let begun = file.write_all(&header).and_then(|()| file.set_len(end));
        begun.map_err(|e| RuntimeError::io(path, "write", e))?;
        Ok(Snapshot { path, file, arrays, end, bytes: Vec::new() })
    }
}

impl AttentionSink for Snapshot<'_> {
    fn rows(&mut self, array: usize, head: usize, first: usize, values: &[f32]) -> Result<()> {
        let (start, [rows, columns]) = self.arrays[array];
        let at = ((head * rows + first) * columns * size_of::<f32>()) as u64;
        self.bytes.clear();
        self.bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let file = &mut self.file;
        let written = file.seek(SeekFrom::Start(start + at)).and_then(|_| file.write_all(&self.bytes));
        written.map_err(|e| RuntimeError::io(self.path, "write", e))
    }
}
