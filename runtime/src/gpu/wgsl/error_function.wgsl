// Abramowitz and Stegun 7.1.26, whose error is below 1.5e-7.
fn error_function(x: f32) -> f32 {
    let a = abs(x);
    let t = 1.0 / (1.0 + 0.3275911 * a);
    let p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    let y = 1.0 - p * exp(-a * a);
    return select(y, -y, x < 0.0);
}
