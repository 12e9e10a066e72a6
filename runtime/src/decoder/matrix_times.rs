//! What each product of weight matrices takes. Matrices that are multiplied together are told by their shapes and types.

use std::time::Instant;

use crate::weights::Weight;

/// Products of the same matrices' shapes, in all layers and steps since counting was switched on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixTime {
    matrices: Vec<Shape>,
    /// Products.
    pub calls: u64,
    /// Of the weights, each time that they were multiplied.
    pub bytes: u64,
    /// Weights times tokens.
    pub multiply_adds: u64,
    /// On the calling thread, around parallel work.
    pub nanoseconds: u64,
}

/// Rows, columns, and the type as in reports.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shape {
    rows: usize,
    cols: usize,
    stored_as: String,
}

impl Shape {
    fn of(weight: &Weight) -> Shape {
        Shape { rows: weight.rows(), cols: weight.cols(), stored_as: weight.type_name() }
    }
}

impl MatrixTime {
    /// The matrices for people: `2 x 1536x576 n4`, or `576x576 8bit + 2 x 192x576 4bit`.
    pub fn name(&self) -> String {
        let equal = self.matrices.chunk_by(|a, b| a == b);
        let parts: Vec<String> = equal
            .map(|shapes| {
                let Shape { rows, cols, stored_as } = &shapes[0];
                let times = if shapes.len() > 1 { format!("{} x ", shapes.len()) } else { String::new() };
                format!("{times}{rows}x{cols} {stored_as}")
            })
            .collect();
        parts.join(" + ")
    }
}

/// Counts, while it is switched on. Off, it costs nothing.
#[derive(Debug, Default)]
pub struct MatrixTimes {
    on: bool,
    products: Vec<MatrixTime>,
}

impl MatrixTimes {
    /// Starts counting from zero, or stops.
    pub fn set(&mut self, on: bool) {
        *self = MatrixTimes { on, products: Vec::new() };
    }

    /// What was counted, in the order of computation.
    pub fn products(&self) -> &[MatrixTime] {
        &self.products
    }

    /// When a product begins, where that is counted.
    pub(super) fn begin(&self) -> Option<Instant> {
        self.on.then(Instant::now)
    }

    /// The product of `weights` with inputs of `tokens` tokens, that [began](Self::begin) then, is done.
    pub(super) fn end<'w>(
        &mut self,
        began: Option<Instant>,
        weights: impl Iterator<Item = &'w Weight> + Clone,
        tokens: usize,
    ) {
        let Some(began) = began else { return };
        let nanoseconds = began.elapsed().as_nanos() as u64;
        let matrices: Vec<Shape> = weights.clone().map(Shape::of).collect();
        let at = self.products.iter().position(|product| product.matrices == matrices);
        let at = at.unwrap_or_else(|| {
            self.products.push(MatrixTime { matrices, calls: 0, bytes: 0, multiply_adds: 0, nanoseconds: 0 });
            self.products.len() - 1
        });
        let product = &mut self.products[at];
        product.calls += 1;
        product.nanoseconds += nanoseconds;
        for weight in weights {
            product.bytes += weight.stored_bytes();
            product.multiply_adds += (weight.rows() * weight.cols() * tokens) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    #[test]
    fn products_of_equal_shapes_are_counted_together_and_others_apart() {
        let tensor = |rows, cols| Weight::Resident(Tensor::from_f32(rows, cols, &vec![0.0; rows * cols]));
        let (wide, narrow) = (tensor(6, 4), tensor(2, 4));
        let mut times = MatrixTimes::default();
        times.end(times.begin(), [&wide].into_iter(), 1);
        assert!(times.products().is_empty(), "off");
        times.set(true);
        for _ in 0..3 {
            times.end(times.begin(), [&wide, &narrow, &narrow].into_iter(), 5);
        }
        times.end(times.begin(), [&wide].into_iter(), 1);
        let names: Vec<String> = times.products().iter().map(MatrixTime::name).collect();
        assert_eq!(names, ["6x4 f32 + 2 x 2x4 f32", "6x4 f32"]);
        let first = &times.products()[0];
        assert_eq!((first.calls, first.bytes, first.multiply_adds), (3, 3 * 4 * 40, 3 * 5 * 40));
    }
}
