//! What is printed of a task.

use qsf_runtime::Result;
use qsf_runtime::source::WeightSource;
use qsf_runtime::tasks::{Compared, Measure, MeasureKind, TaskFigures, TaskFormat, TaskRequest};
use serde_json::{Value, json};

use super::args::EvalArgs;
use super::report::Facts;
use crate::json_document::document;
use crate::model_name::model_name;

/// Figures of a task, and how the model was run for them.
pub struct TaskReport {
    pub(super) figures: TaskFigures,
    pub(super) names: TaskNames,
    pub(super) facts: Facts,
    pub(super) format: TaskFormat,
    /// Most tokens that the model saw at once.
    pub(super) context: usize,
    /// Of a run within a RAM budget: for people, and as JSON.
    pub(super) streaming: Option<(String, Value)>,
}

/// What was scored.
pub(super) struct TaskNames {
    model: String,
    base: Option<String>,
    task: &'static str,
    task_file: String,
    few_shot: usize,
    few_shot_file: Option<String>,
    task_out: Option<String>,
}

impl TaskNames {
    pub fn of(
        args: &EvalArgs,
        request: TaskRequest<'_>,
        base: Option<&dyn WeightSource>,
    ) -> Result<TaskNames> {
        Ok(TaskNames {
            model: model_name(args.model()?),
            base: base.map(|base| model_name(base.path())),
            task: request.task.name(),
            task_file: model_name(request.path),
            few_shot: request.few_shot,
            few_shot_file: request.examples.map(model_name),
            task_out: args.task_out.as_ref().map(|path| path.display().to_string()),
        })
    }
}

impl TaskReport {
    /// What `--json` prints.
    ///
    /// # Errors
    /// None for figures that are numbers.
    pub fn to_json(&self) -> anyhow::Result<Value> {
        let TaskReport { figures, names, facts, format, context, streaming } = self;
        let mut value = serde_json::to_value(figures)?;
        value["model"] = json!(names.model);
        value["base"] = json!(names.base);
        value["task"] = json!(names.task);
        value["task_file"] = json!(names.task_file);
        value["format"] = json!(format.name());
        value["few_shot"] = json!(names.few_shot);
        value["few_shot_file"] = json!(names.few_shot_file);
        value["task_out_path"] = json!(names.task_out);
        value["ctx"] = json!(context);
        value["device"] = json!(facts.device);
        value["activations"] = json!(facts.activations);
        value["kv_type"] = json!(facts.kv_type);
        value["streaming"] = json!(streaming.as_ref().map(|(_, json)| json));
        for (name, shortcut) in facts.shortcuts.as_object().into_iter().flatten() {
            value[name] = shortcut.clone();
        }
        Ok(document("task_evaluation", value))
    }

    /// The same for people.
    pub fn to_text(&self) -> String {
        let TaskReport { figures, names, facts, streaming, .. } = self;
        let mut out = format!(
            "{} on {}: {}, {} items, {} examples each, {}, {} activations, {} KV cache, {:.1} s\n",
            names.model,
            names.task_file,
            names.task,
            figures.items,
            names.few_shot,
            facts.device,
            facts.activations,
            facts.kv_type,
            figures.seconds
        );
        for measure in &figures.measures {
            out += &measure_line(measure.name, measure);
            if let (Some(compared), Some(base)) = (&measure.compared, &names.base) {
                out += &compared_lines(measure.kind, compared, base);
            }
        }
        for group in &figures.groups {
            for measure in &group.measures {
                out += &measure_line(&format!("  {}, {} items", group.name, group.items), measure);
            }
        }
        if figures.cut_items > 0 {
            out += &format!(
                "{} items did not fit {} tokens: their contexts were cut on the left\n",
                figures.cut_items, self.context
            );
        }
        out + &facts.shortcut_lines + streaming.as_ref().map_or("", |(text, _)| text)
    }
}

fn measure_line(name: &str, measure: &Measure) -> String {
    format!("{name:<21} {}\n", figure(measure.kind, measure.value, measure.stderr))
}

fn compared_lines(kind: MeasureKind, compared: &Compared, base: &str) -> String {
    let Compared { base_value, base_stderr, difference, difference_stderr, gained, lost, same_choice_share } =
        compared;
    let mut out = format!(
        "{:<22}{}, {base}\n{:<22}{}",
        "  of base",
        figure(kind, *base_value, *base_stderr),
        "  difference",
        figure(kind, *difference, *difference_stderr)
    );
    if let (Some(gained), Some(lost)) = (gained, lost) {
        out += &format!("; {gained} items only the model has right, {lost} only the base");
    }
    out.push('\n');
    if let Some(share) = same_choice_share {
        out += &format!("{:<22}{:.2} %\n", "  same answer", 100.0 * share);
    }
    out
}

fn figure(kind: MeasureKind, value: f64, stderr: Option<f64>) -> String {
    match kind {
        MeasureKind::Share | MeasureKind::Mean => {
            let error = stderr.map_or_else(String::new, |error| format!(" +- {:.2}", 100.0 * error));
            format!("{:.2}{error} %", 100.0 * value)
        }
        MeasureKind::Perplexity => {
            let error = stderr.map_or_else(String::new, |error| format!(" +- {error:.4}"));
            format!("{value:.4}{error}")
        }
    }
}
