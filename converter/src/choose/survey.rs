//! What each type would do to each matrix: measured before types are chosen for a size, layer by layer.

use qsf_calibration::Probe;
use qsf_format::{JsonLimits, from_json};

use super::matrices::{SurveyedLayer, SurveyedTensor, Surveyor};
use super::survey_text::SurveyText;
use super::survey_work::SurveyWork;
use crate::error::Result;
use crate::fit::{EMBEDDING_RECORD, StatsFiles};
use crate::resume::Records;
use crate::session::Session;

/// What was measured of a model.
#[derive(Default)]
pub(crate) struct Survey {
    /// All tensors whose types are to be chosen.
    pub tensors: Vec<SurveyedTensor>,
    /// Divergence of the model's predictions without each layer.
    pub importance: Vec<f32>,
}

impl Survey {
    fn add(&mut self, layer: Option<u32>, found: SurveyedLayer) {
        self.tensors.extend(found.tensors);
        self.importance.extend(layer.map(|_| found.importance.unwrap_or(f64::NAN) as f32));
    }
}

/// Measures every matrix that the surveyor wants; what `records` has is not measured again.
pub(crate) fn survey(
    surveyor: &Surveyor<'_>,
    stats: &mut StatsFiles,
    records: &mut dyn Records,
    session: &Session<'_>,
) -> Result<Survey> {
    let Session { cpu, tokens, progress, cancel } = *session;
    let source = surveyor.encoder.source;
    if !stats.writes()
        && let Some(known) = from_records(source.config().layers, records)?
    {
        return Ok(known);
    }
    let text = SurveyText::of_tensors(tokens, stats.writes(), surveyor.size.heard_chunks);
    let mut probe = Probe::new(source, cpu, text.measured(), cancel)?;
    let work = SurveyWork::new(source, surveyor.size, text.heard.len(), probe.tokens(), progress);
    let all = (0..source.config().layers).map(Some).chain([None]);
    progress
        .begin("choosing types", all.map(|layer| work.moments(layer) + surveyor.work_of(&work, layer)).sum());
    let listening = work.of_tokens();
    let mut survey = Survey::default();
    let each = &Session { tokens: &text.heard, progress: &listening, ..*session };
    stats.for_each_layer(source, each, |stats| {
        let (layer, name) = (stats.layer, record_name(stats.layer));
        let known = records
            .get(&name)?
            .and_then(|json| from_json::<SurveyedLayer>(&json, JsonLimits::DESCRIPTION).ok());
        let found = match (known, layer) {
            (Some(known), _) => {
                work.done(surveyor.work_of(&work, layer));
                known
            }
            (None, Some(layer)) => surveyor.layer(layer, stats, &mut probe, &work)?,
            (None, None) => surveyor.ends(&stats, &mut probe, &work)?,
        };
        records.put_new(&name, &serde_json::to_vec(&found).expect("names and finite numbers are JSON"))?;
        survey.add(layer, found);
        if layer.is_some() {
            probe.advance()?;
        }
        Ok(())
    })?;
    progress.end();
    Ok(survey)
}

fn record_name(layer: Option<u32>) -> String {
    layer.map_or("survey of ends".to_owned(), |layer| format!("survey of layer {layer}"))
}

/// The whole survey, if a run that was stopped has got so far that nothing needs the statistics again.
fn from_records(layers: u32, records: &mut dyn Records) -> Result<Option<Survey>> {
    if !records.has(EMBEDDING_RECORD) {
        return Ok(None);
    }
    let mut survey = Survey::default();
    for layer in (0..layers).map(Some).chain([None]) {
        let json = records.get(&record_name(layer))?;
        let Some(found) =
            json.and_then(|json| from_json::<SurveyedLayer>(&json, JsonLimits::DESCRIPTION).ok())
        else {
            return Ok(None);
        };
        survey.add(layer, found);
    }
    Ok(Some(survey))
}
