//! The text of the kernels: WGSL in the files beside these, which say what their places become.
//!
//! | File | Kernels |
//! |---|---|
//! | `codes` | how values of each type come out of panels; no kernel of its own |
//! | `embed` | rows of the embedding |
//! | `mat_vec`, `int_dot`, `mat_mat` | matrices times few vectors, in integers too, and times many |
//! | `norm` | the residual stream and its norms |
//! | `place`, `attend` | queries, keys and values; attention |
//! | `eight_bit` | keys and values in codes of 8 bits; no kernel of its own |
//! | `pointwise`, `activation` | each value alone |
//! | `convolve`, `recurrence`, `mixer_gate` | the convolution of a recurrent mixer, its state, and the gate of what that gives |
//! | `route` | which experts a token goes through |
//! | `experts` | tiles of choices, weighted inputs, and results of experts together |
//! | `choose`, `likeliest` | the likeliest token; the likeliest of them |
//! | `low_rank` | what adapters add to a matrix |
//! | `streams` | residual streams beside each other |
//! | `cut_off` | gates of which most are 0 |
//! | `limit` | what inputs of matrix units are multiplied with |
//! | `levels`, `key` | tables of levels, logits as keys; no kernels of their own |
//! | `sum` | words added up, to measure other kernels by |
//! | `template` | how places in a text become values; no kernel of its own |

pub mod activation;
pub mod attend;
pub mod choose;
pub mod codes;
pub mod convolve;
pub mod cut_off;
pub mod eight_bit;
pub mod embed;
pub mod experts;
mod int_dot;
mod key;
mod levels;
pub mod likeliest;
pub mod limit;
pub mod low_rank;
pub mod mat_mat;
pub mod mat_vec;
pub mod mixer_gate;
pub mod norm;
pub mod place;
pub mod pointwise;
pub mod recurrence;
pub mod route;
pub mod streams;
pub mod sum;
mod template;
