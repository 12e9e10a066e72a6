//! Plans as files: what is written comes back, and what is none is refused with what is wrong.

use std::fs;

use qsf_format::{QuantType, TensorId, TensorKind};
use qsf_runtime::source::TensorInfo;

use super::SavedPlan;
use crate::options::ConvertOptions;
use crate::plan::{OutlierShare, Plan, Recipe};
use crate::replay::SurveyedModel;

fn tensors() -> [TensorInfo; 3] {
    let info = |id| TensorInfo { id, name: "t".into(), rows: 64, cols: 64, stored: QuantType::F16.into() };
    [
        info(TensorId::of_model(TensorKind::TokenEmbedding)),
        info(TensorId::of_layer(10, TensorKind::AttnQ)),
        info(TensorId::of_layer(1, TensorKind::AttnQ)),
    ]
}

fn saved() -> (SavedPlan, Plan) {
    let rules = ["layer 10 attn_q=8bit".parse().unwrap(), "token_embedding=3bit+0.25%".parse().unwrap()];
    let plan = Plan::new(&tensors(), Recipe::Uniform(QuantType::Q4), &rules, OutlierShare::NONE).unwrap();
    let survey = SurveyedModel { importance: vec![0.1, f32::MIN_POSITIVE] };
    (SavedPlan::of(&ConvertOptions::default(), &plan, Vec::new(), None, Some(&survey)), plan)
}

#[test]
fn a_plan_that_was_written_gives_the_same_types_and_the_same_measurements() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.json");
    let (plan, types) = saved();
    plan.write(&path, false).unwrap();
    let read = SavedPlan::read(&path).unwrap();
    let mut again = Plan::new(&tensors(), Recipe::Uniform(QuantType::Q2), &[], OutlierShare::NONE).unwrap();
    read.types.apply(&mut again).unwrap();
    assert_eq!(again, types);
    assert_eq!(read.types.sha256(), read.types_sha256);
    assert_eq!(read.survey.as_ref().unwrap().restore().importance, [0.1, f32::MIN_POSITIVE]);
    // The same again is no loss; another conversion's is.
    plan.write(&path, false).unwrap();
    let other = ConvertOptions { min_cosine: Some(0.5), ..ConvertOptions::default() };
    let other = SavedPlan::of(&other, &types, Vec::new(), None, None);
    assert!(other.write(&path, false).is_err());
    other.write(&path, true).unwrap();
}

#[test]
fn types_must_be_of_exactly_the_tensors_that_the_model_has() {
    let (plan, types) = saved();
    for (tensors, says) in [(&tensors()[..2], "'layer 1 attn_q'"), (&tensors()[1..], "'token_embedding'")] {
        let mut short = Plan::new(tensors, Recipe::Uniform(QuantType::Q4), &[], OutlierShare::NONE).unwrap();
        let error = plan.types.apply(&mut short).unwrap_err();
        assert!(error.contains(says) && error.contains("model has not"), "{error}");
    }
    let json = serde_json::to_value(&plan).unwrap().to_string().replace(r#""layer 1 attn_q":"4bit","#, "");
    let fewer: SavedPlan = serde_json::from_str(&json).unwrap();
    let error = fewer.types.apply(&mut types.clone()).unwrap_err();
    assert!(error.contains("no type of 'layer 1 attn_q'"), "{error}");
    assert_ne!(fewer.types.sha256(), fewer.types_sha256, "an edited plan is told from one that is not");
}

#[test]
fn a_wrong_plan_is_refused_with_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.json");
    let whole = serde_json::to_string(&saved().0).unwrap();
    let with = |from: &str, to: &str| {
        assert!(whole.contains(from), "{whole}");
        whole.replace(from, to)
    };
    for (text, part) in [
        (r#"{"version": 1, "types": {}}"#.to_owned(), "version 1"),
        (with(r#""version":2"#, r#""version":3"#), "version 3"),
        (with(r#""layer 10 attn_q":"8bit""#, r#""layer 10 attn_q":"q5_kk""#), "q5_kk"),
        (with(r#""layer 10 attn_q""#, r#""layer 1 attn_q""#), "'layer 1 attn_q' comes twice"),
        (with("+0.25%", "+half"), "half"),
        (with(r#""types":"#, r#""typos":"#), "typos"),
        ("PK".to_owned(), "expected value"),
    ] {
        fs::write(&path, text).unwrap();
        let error = with_causes(&SavedPlan::read(&path).unwrap_err());
        assert!(error.contains(part) && error.contains("plan.json"), "{error}");
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
