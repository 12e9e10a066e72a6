//! The chart of size against divergence, as SVG that needs no script. It is drawn twice, for narrow screens and for wide
//! ones, because letters of a drawing that is scaled down cannot be read; the style sheet shows one of them.

use std::fmt::Write as _;

use super::axis::Axis;
use super::escape::html;
use super::facts::FileFacts;
use super::labels::{Place, spread};
use super::models::{Model, dominated, models};

/// A file whose divergence is known.
struct Point<'a> {
    /// In the table of files.
    number: usize,
    name: &'a str,
    bytes: u64,
    kld: f64,
    /// Its model, by number.
    model: usize,
    /// Whether another file of the model is no larger and nearer to the source.
    is_dominated: bool,
}

/// Lengths of a drawing, in its own units.
struct Frame {
    class: &'static str,
    width: f64,
    height: f64,
    left: f64,
    bottom: f64,
    /// Whether there is room for names; else points have the numbers of the table.
    names: bool,
}

const NARROW: Frame =
    Frame { class: "narrow", width: 340.0, height: 300.0, left: 58.0, bottom: 46.0, names: false };
const WIDE: Frame =
    Frame { class: "wide", width: 760.0, height: 400.0, left: 64.0, bottom: 50.0, names: true };
/// Room above and to the right.
const EDGE: f64 = 16.0;
/// More names than this cannot be told apart.
const MAX_NAMES: usize = 12;
/// Characters of a name.
const MAX_NAME: usize = 30;
/// Models that have a colour of their own.
const COLOURS: usize = 4;

/// The chart, of the files that were evaluated; empty when fewer than two were.
pub(super) fn chart(files: &[FileFacts]) -> String {
    let (models, dominated) = (models(files), dominated(files));
    let known = files.iter().enumerate().filter_map(|(i, file)| {
        let kld = file.evaluation.as_ref()?.kld?;
        let model = models.iter().position(|model| model.files.contains(&i))?;
        let is_dominated = dominated[i].is_some();
        Some(Point { number: i + 1, name: &file.name, bytes: file.bytes, kld, model, is_dominated })
    });
    let points: Vec<Point> = known.collect();
    if points.len() < 2 {
        return String::new();
    }
    let divergences: Vec<f64> = points.iter().map(|point| point.kld).collect();
    let axis = Axis::from_zero(&divergences);
    let at_edge = matches!(axis, Axis::Decades { .. }) && points.iter().any(|point| point.kld <= 0.0);
    let edge = if at_edge { " A divergence of 0 is drawn at the lower edge." } else { "" };
    format!(
        "<figure>\n{}{}{}<figcaption>Size and KL divergence from the source: further down is nearer to it, further left is smaller.{edge} \
         A line joins the files of a model that no other beats in both; hollow points are beaten. Numbers are those of the table above.</figcaption>\n</figure>\n",
        legend(&models, &points),
        drawing(&points, &axis, &NARROW),
        drawing(&points, &axis, &WIDE)
    )
}

/// Where values lie in a drawing.
struct Plot<'a> {
    frame: &'a Frame,
    /// Of sizes, in its unit.
    x_axis: Axis,
    y_axis: &'a Axis,
}

impl Plot<'_> {
    fn right(&self) -> f64 {
        self.frame.width - EDGE
    }

    fn floor(&self) -> f64 {
        self.frame.height - self.frame.bottom
    }

    fn x(&self, size: f64) -> f64 {
        self.frame.left + self.x_axis.place(size) * (self.right() - self.frame.left)
    }

    fn y(&self, kld: f64) -> f64 {
        self.floor() - self.y_axis.place(kld) * (self.floor() - EDGE)
    }
}

/// Which colour is which model, where there are several.
fn legend(models: &[Model], points: &[Point]) -> String {
    if models.len() < 2 {
        return String::new();
    }
    let mut out = String::from("<p class=\"models\">");
    for (i, model) in models.iter().enumerate() {
        if points.iter().any(|point| point.model == i) {
            let name = if model.name.is_empty() { format!("model {}", i + 1) } else { html(&model.name) };
            // Writing to a string cannot fail.
            _ = write!(out, "<span class=\"m{}\">{name}</span>", i % COLOURS);
        }
    }
    out + "</p>\n"
}

/// A line through the files of each model that no other beats.
fn fronts(points: &[Point], places: &[(f64, f64)]) -> String {
    let mut out = String::new();
    let models = points.iter().map(|point| point.model + 1).max().unwrap_or(0);
    for model in 0..models {
        let mut front: Vec<(f64, f64)> = points
            .iter()
            .zip(places)
            .filter(|(point, _)| point.model == model && !point.is_dominated)
            .map(|(_, place)| *place)
            .collect();
        front.sort_by(|a, b| a.0.total_cmp(&b.0));
        if front.len() > 1 {
            let line: Vec<String> = front.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            // Writing to a string cannot fail.
            _ = writeln!(
                out,
                "<polyline class=\"front m{}\" points=\"{}\"/>",
                model % COLOURS,
                line.join(" ")
            );
        }
    }
    out
}

fn drawing(points: &[Point], y_axis: &Axis, frame: &Frame) -> String {
    let largest = points.iter().map(|point| point.bytes).max().unwrap_or(0);
    let (unit, per_unit) = match largest {
        0..1_000_000 => ("kB", 1e3),
        1_000_000..1_000_000_000 => ("MB", 1e6),
        _ => ("GB", 1e9),
    };
    let sizes: Vec<f64> = points.iter().map(|point| point.bytes as f64 / per_unit).collect();
    let plot = Plot { frame, x_axis: Axis::around(&sizes), y_axis };
    let places: Vec<(f64, f64)> =
        points.iter().zip(&sizes).map(|(point, size)| (plot.x(*size), plot.y(point.kld))).collect();
    format!(
        "<svg class=\"chart {}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Chart of size and KL divergence; the figures are in the table of files\">\n{}{}{}</svg>\n",
        frame.class,
        frame.width,
        frame.height,
        axes(&plot, unit),
        fronts(points, &places),
        marks(points, &places, frame)
    )
}

/// Lines, ticks and names of both axes.
fn axes(plot: &Plot, unit: &str) -> String {
    let (left, right, floor) = (plot.frame.left, plot.right(), plot.floor());
    let mut out = String::new();
    // Writing to a string cannot fail.
    for tick in plot.y_axis.ticks() {
        let (y, label) = (plot.y(tick), plot.y_axis.label(tick));
        _ = write!(
            out,
            "<line class=\"grid\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
            left - 8.0,
            y + 4.0
        );
    }
    // Where labels would touch, every other one.
    let every = if plot.frame.names { 1 } else { 2 };
    for tick in plot.x_axis.ticks().into_iter().step_by(every) {
        let (x, label) = (plot.x(tick), plot.x_axis.label(tick));
        _ = write!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{EDGE:.1}\" y2=\"{floor:.1}\"/>\n\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>\n",
            floor + 18.0
        );
    }
    _ = write!(
        out,
        "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">size, {unit}</text>\n\
         <text class=\"axis\" transform=\"translate(13 {:.1}) rotate(-90)\" text-anchor=\"middle\">KL divergence, nats</text>\n",
        (left + right) / 2.0,
        plot.frame.height - 8.0,
        (EDGE + floor) / 2.0
    );
    out
}

/// The points, with what a pointer over them is told, and their labels.
fn marks(points: &[Point], places: &[(f64, f64)], frame: &Frame) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    for (point, (x, y)) in points.iter().zip(places) {
        _ = writeln!(
            out,
            "<circle class=\"point m{}{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"><title>{}: {} bytes, KL divergence {}</title></circle>",
            point.model % COLOURS,
            if point.is_dominated { " beaten" } else { "" },
            html(point.name),
            point.bytes,
            point.kld
        );
    }
    let names = frame.names && points.len() <= MAX_NAMES;
    let labels: Vec<String> = points.iter().map(|point| label(point, names)).collect();
    let within = [frame.left, frame.width - 2.0, 2.0, frame.height - frame.bottom - 2.0];
    for ((label, place), (x, y)) in labels.iter().zip(spread(&labels, places, within)).zip(places) {
        let Place { x: at, y: line, anchor, is_far } = place;
        if is_far {
            let end = if anchor == "end" { at + 2.0 } else { at - 2.0 };
            _ = writeln!(
                out,
                "<line class=\"lead\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{end:.1}\" y2=\"{:.1}\"/>",
                line - 4.0
            );
        }
        _ = writeln!(
            out,
            "<text class=\"name\" x=\"{at:.1}\" y=\"{line:.1}\" text-anchor=\"{anchor}\">{}</text>",
            html(label)
        );
    }
    out
}

fn label(point: &Point, names: bool) -> String {
    if !names {
        return point.number.to_string();
    }
    match point.name.char_indices().nth(MAX_NAME) {
        Some((cut, _)) => format!("{} {}...", point.number, &point.name[..cut]),
        None => format!("{} {}", point.number, point.name),
    }
}
