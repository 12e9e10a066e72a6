// ln(1 + e^x) = max(x, 0) + ln(1 + u). The logarithm has a large relative error next to 1: there it is a series.
fn softplus(x: f32) -> f32 {
    let u = exp(-abs(x));
    return max(x, 0.0) + select(log(1.0 + u), u * (1.0 - u * (0.5 - u * (0.33333333 - u * 0.25))), u < 0.03);
}
