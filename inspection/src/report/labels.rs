//! Where the labels of a chart stand: beside their points, over no other label and no point.

/// Height of a line of text, and the width of most letters.
const LINE: f64 = 16.0;
const LETTER: f64 = 7.5;
/// Room around a point.
const NEAR: f64 = 9.0;

/// Where a label stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Place {
    pub x: f64,
    /// Of the line that letters stand on.
    pub y: f64,
    pub anchor: &'static str,
    /// Whether it is so far from its point that a line has to lead there.
    pub is_far: bool,
}

/// A rectangle: left, right, upper and lower edge.
#[derive(Debug, Clone, Copy)]
struct Area(f64, f64, f64, f64);

impl Area {
    fn touches(&self, other: &Area) -> bool {
        self.0 < other.1 && other.0 < self.1 && self.2 < other.3 && other.2 < self.3
    }

    fn is_in(&self, other: &Area) -> bool {
        self.0 >= other.0 && self.1 <= other.1 && self.2 >= other.2 && self.3 <= other.3
    }
}

/// A place for each label, in an area from `left` to `right` and `top` to `bottom`. One that has none free beside its point goes
/// up or down until one is.
pub(super) fn spread(labels: &[String], points: &[(f64, f64)], within: [f64; 4]) -> Vec<Place> {
    let [left, right, top, bottom] = within;
    let frame = Area(left, right, top, bottom);
    let marks: Vec<Area> = points.iter().map(|(x, y)| Area(x - 6.0, x + 6.0, y - 6.0, y + 6.0)).collect();
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by(|a, b| points[*a].1.total_cmp(&points[*b].1));
    let mut taken: Vec<Area> = Vec::new();
    let mut out = vec![Place { x: 0.0, y: 0.0, anchor: "start", is_far: false }; labels.len()];
    for i in order {
        let width = labels[i].chars().count() as f64 * LETTER;
        let free =
            |area: &Area| area.is_in(&frame) && !taken.iter().chain(&marks).any(|other| area.touches(other));
        let found = candidates(points[i], width).find(|(_, area)| free(area));
        let (place, area) = found.unwrap_or_else(|| {
            let on_left = points[i].0 + NEAR + width > right;
            beside(points[i], width, on_left, 0.0)
        });
        taken.push(area);
        out[i] = place;
    }
    out
}

/// Places, the best first: to the right, to the left, above, below, and then ever further up and down.
fn candidates(point: (f64, f64), width: f64) -> impl Iterator<Item = (Place, Area)> {
    let near = [beside(point, width, false, 0.0), beside(point, width, true, 0.0)];
    let over = [-1.0, 1.0].map(|side| {
        let (x, y) = (point.0, point.1 + side * (NEAR + LINE / 2.0));
        let place = Place { x, y: y + 4.0, anchor: "middle", is_far: false };
        (place, area(x - width / 2.0, width, y))
    });
    let far = (1..40).flat_map(move |step| {
        let shift = f64::from(step) * LINE / 2.0;
        [(false, -shift), (false, shift), (true, -shift), (true, shift)]
            .map(|(on_left, shift)| beside(point, width, on_left, shift))
    });
    near.into_iter().chain(over).chain(far)
}

fn beside((x, y): (f64, f64), width: f64, on_left: bool, shift: f64) -> (Place, Area) {
    let y = y + shift;
    let is_far = shift.abs() > LINE;
    // A line that leads to the point needs room.
    let gap = if is_far { 2.0 * NEAR } else { NEAR };
    if on_left {
        (Place { x: x - gap, y: y + 4.0, anchor: "end", is_far }, area(x - gap - width, width, y))
    } else {
        (Place { x: x + gap, y: y + 4.0, anchor: "start", is_far }, area(x + gap, width, y))
    }
}

fn area(left: f64, width: f64, y: f64) -> Area {
    Area(left, left + width, y - LINE / 2.0, y + LINE / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: [f64; 4] = [64.0, 744.0, 16.0, 350.0];

    fn areas(labels: &[String], points: &[(f64, f64)]) -> Vec<Area> {
        let places = spread(labels, points, WITHIN);
        let areas = places.iter().zip(labels).map(|(place, label)| {
            let width = label.chars().count() as f64 * LETTER;
            let left = match place.anchor {
                "start" => place.x,
                "end" => place.x - width,
                _ => place.x - width / 2.0,
            };
            area(left, width, place.y - 4.0)
        });
        areas.collect()
    }

    #[test]
    fn labels_cover_neither_each_other_nor_points_nor_the_edge() {
        let labels: Vec<String> = (0..8).map(|i| format!("{i} a-model-of-some-size.qsf")).collect();
        let points = [
            (100.0, 50.0),
            (101.0, 51.0),
            (99.0, 50.0),
            (735.0, 60.0),
            (400.0, 50.0),
            (420.0, 340.0),
            (430.0, 341.0),
            (102.0, 70.0),
        ];
        let found = areas(&labels, &points);
        let frame = Area(WITHIN[0], WITHIN[1], WITHIN[2], WITHIN[3]);
        for (i, a) in found.iter().enumerate() {
            assert!(a.is_in(&frame), "label {i}: {a:?}");
            for (j, b) in found.iter().enumerate().skip(i + 1) {
                assert!(!a.touches(b), "labels {i} and {j}: {a:?} {b:?}");
            }
            for (x, y) in points {
                assert!(!a.touches(&Area(x - 5.0, x + 5.0, y - 5.0, y + 5.0)), "label {i}: {a:?}, {x} {y}");
            }
        }
    }
}
