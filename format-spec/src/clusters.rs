//! Section CLUS: the rows of the head in groups of like direction, and how often the likeliest token was in the groups that a
//! hidden state points to (SPEC.md section 7.9).

/// The version of the section that is written and read.
const VERSION: u32 = 1;
/// Bytes before the measurements.
const HEADER_BYTES: usize = 24;
/// Bytes of a [`Containment`].
const CONTAINMENT_BYTES: usize = 8;
/// Most clusters: an id is at most a u16.
pub const MAX_CLUSTERS: u32 = 1 << 16;
/// The exponent of an f16: all ones in infinities and NaN.
const F16_EXPONENT: u16 = 0x7C00;
/// Most clusters whose ids are stored as a u8.
const MAX_NARROW: u32 = 1 << 8;

/// The tokens of a vocabulary in clusters.
///
/// For a hidden state h, the clusters are looked at in descending order of `h . centroid + lead` (of equal ones the first
/// first); of those in front, logits of all tokens are computed.
#[derive(Debug, Clone, PartialEq)]
pub struct VocabClusters {
    /// Values of a centroid: the columns of the head.
    pub cols: u32,
    /// Clusters x cols, f16, little-endian: the mean of the cluster's rows of the head.
    pub centroids: Vec<u8>,
    /// One per cluster: what the largest logit of its tokens is above `h . centroid`, on average.
    pub leads: Vec<f32>,
    /// The cluster of each token.
    pub cluster_of: Vec<u16>,
    /// Positions of a text that the containments were counted on.
    pub positions: u32,
    /// What was counted, by ascending numbers of clusters.
    pub containments: Vec<Containment>,
}

/// How often the likeliest token was in the clusters that were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Containment {
    /// Clusters that are looked at.
    pub probed: u32,
    /// Positions whose likeliest token is in one of them.
    pub positions: u32,
}

/// Offset in the section, what was expected there and what was found.
type Wrong = (usize, String, String);

impl VocabClusters {
    /// Number of clusters.
    pub fn count(&self) -> usize {
        self.leads.len()
    }

    /// The part of all measured positions whose likeliest token is in the first `probed` clusters; `None` where that was not
    /// measured.
    pub fn share(&self, probed: u32) -> Option<f64> {
        let found = self.containments.iter().find(|c| c.probed == probed)?;
        Some(f64::from(found.positions) / f64::from(self.positions))
    }

    /// The least measured number of clusters that contains the likeliest token of at least `share` of the positions.
    pub fn least_probed(&self, share: f64) -> Option<u32> {
        self.containments.iter().map(|c| c.probed).find(|probed| self.share(*probed) >= Some(share))
    }

    /// Size of a section of these counts.
    pub fn section_bytes(count: u32, cols: u32, tokens: u32, measurements: u32) -> u64 {
        section_parts(count, cols, tokens, measurements).iter().sum()
    }

    /// The bytes of the section.
    ///
    /// # Errors
    /// What the format cannot hold.
    pub fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let fits = |what: &str, n: usize| u32::try_from(n).map_err(|_| format!("{n} {what}"));
        let counts = [
            VERSION,
            fits("clusters", self.count())?,
            self.cols,
            fits("tokens", self.cluster_of.len())?,
            self.positions,
            fits("measurements", self.containments.len())?,
        ];
        let mut bytes: Vec<u8> = counts.iter().flat_map(|n| n.to_le_bytes()).collect();
        bytes.extend(
            self.containments.iter().flat_map(|c| [c.probed, c.positions]).flat_map(u32::to_le_bytes),
        );
        bytes.extend(self.leads.iter().flat_map(|lead| lead.to_le_bytes()));
        bytes.extend(&self.centroids);
        match u32::try_from(self.count()) {
            // Truncated ids do not parse: what is read back below is what was given, or an error.
            Ok(..=MAX_NARROW) => bytes.extend(self.cluster_of.iter().map(|id| *id as u8)),
            _ => bytes.extend(self.cluster_of.iter().flat_map(|id| id.to_le_bytes())),
        }
        match VocabClusters::parse(&bytes, self.cluster_of.len() as u32, self.cols) {
            Ok(read) if read == *self => Ok(bytes),
            Ok(_) => Err("an id of a cluster that is not there".into()),
            Err((at, expected, found)) => Err(format!("at byte {at} expected {expected}, found {found}")),
        }
    }

    /// Reads a section of a model of `vocab` tokens and hidden states of `cols` values.
    ///
    /// # Errors
    /// The first field that is wrong. No memory is taken before the length fits the counts.
    pub(crate) fn parse(bytes: &[u8], vocab: u32, cols: u32) -> Result<VocabClusters, Wrong> {
        let wrong = |at: usize, expected: String, found: String| Err((at, expected, found));
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return wrong(0, format!("at least {HEADER_BYTES} bytes"), format!("{} bytes", bytes.len()));
        };
        let field = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|b| header[4 * i + b]));
        let [version, count, found_cols, tokens, positions, measured] = std::array::from_fn(field);
        if version != VERSION {
            return wrong(0, format!("version {VERSION}"), version.to_string());
        }
        if !(1..=MAX_CLUSTERS).contains(&count) {
            return wrong(4, format!("1 to {MAX_CLUSTERS} clusters"), count.to_string());
        }
        if found_cols != cols {
            return wrong(8, format!("{cols} columns as in the header"), found_cols.to_string());
        }
        if tokens != vocab {
            return wrong(12, format!("{vocab} tokens as in the header"), tokens.to_string());
        }
        if measured > count {
            return wrong(20, format!("at most {count} measurements"), measured.to_string());
        }
        let sizes = section_parts(count, cols, tokens, measured);
        let expected: u64 = sizes.iter().sum();
        if bytes.len() as u64 != expected {
            return wrong(0, format!("{expected} bytes by the counts"), format!("{} bytes", bytes.len()));
        }
        // All of these are parts of what is in memory.
        let start = |i: usize| sizes[..i].iter().sum::<u64>() as usize;
        let part = |i: usize| &bytes[start(i)..start(i + 1)];
        let [containments_at, leads_at, centroids_at, ids_at] = [1, 2, 3, 4].map(start);

        let mut containments: Vec<Containment> = Vec::with_capacity(measured as usize);
        for (i, record) in part(1).as_chunks::<4>().0.as_chunks::<2>().0.iter().enumerate() {
            let [probed, contained] = record.map(u32::from_le_bytes);
            let at = containments_at + i * CONTAINMENT_BYTES;
            let before = containments.last().copied().unwrap_or(Containment { probed: 0, positions: 0 });
            if probed <= before.probed || probed > count {
                let expected = format!("more than {} and at most {count} clusters", before.probed);
                return wrong(at, expected, probed.to_string());
            }
            if positions == 0 || contained < before.positions || contained > positions {
                let expected = format!("{} to {positions} positions, at least 1 in all", before.positions);
                return wrong(at + 4, expected, contained.to_string());
            }
            containments.push(Containment { probed, positions: contained });
        }
        let leads: Vec<f32> = part(2).as_chunks().0.iter().map(|lead| f32::from_le_bytes(*lead)).collect();
        if let Some(i) = leads.iter().position(|lead| !lead.is_finite()) {
            return wrong(leads_at + 4 * i, "a finite number".into(), leads[i].to_string());
        }
        let centroids = part(3);
        let values = centroids.as_chunks::<2>().0;
        let finite = |value: &[u8; 2]| u16::from_le_bytes(*value) & F16_EXPONENT != F16_EXPONENT;
        if let Some(i) = values.iter().position(|value| !finite(value)) {
            return wrong(
                centroids_at + 2 * i,
                "a finite number".into(),
                format!("bytes {:02X?}", values[i]),
            );
        }
        let id_bytes = id_bytes(count);
        let cluster_of: Vec<u16> = if id_bytes == 1 {
            part(4).iter().map(|id| u16::from(*id)).collect()
        } else {
            part(4).as_chunks().0.iter().map(|id| u16::from_le_bytes(*id)).collect()
        };
        if let Some(i) = cluster_of.iter().position(|id| u32::from(*id) >= count) {
            let at = ids_at + i * id_bytes;
            return wrong(at, format!("a cluster below {count}"), cluster_of[i].to_string());
        }
        Ok(VocabClusters { cols, centroids: centroids.to_vec(), leads, cluster_of, positions, containments })
    }
}

/// Bytes of the id of one of `count` clusters.
fn id_bytes(count: u32) -> usize {
    if count <= MAX_NARROW { 1 } else { 2 }
}

/// Sizes of header, measurements, leads, centroids and ids. With at most 2^16 clusters their sum is below 2^50.
fn section_parts(count: u32, cols: u32, tokens: u32, measurements: u32) -> [u64; 5] {
    [
        HEADER_BYTES as u64,
        u64::from(measurements) * CONTAINMENT_BYTES as u64,
        u64::from(count) * 4,
        u64::from(count) * u64::from(cols) * 2,
        u64::from(tokens) * id_bytes(count) as u64,
    ]
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const COLS: u32 = 5;
    const TOKENS: u32 = 7;

    fn clusters(count: u16) -> VocabClusters {
        VocabClusters {
            cols: COLS,
            centroids: (0..usize::from(count) * COLS as usize).flat_map(|i| [i as u8, 0x3C]).collect(),
            leads: (0..count).map(|i| f32::from(i) * 0.5).collect(),
            cluster_of: (0..TOKENS as u16).map(|token| token * 31 % count).collect(),
            positions: 100,
            containments: vec![
                Containment { probed: 1, positions: 40 },
                Containment { probed: 2, positions: 99 },
                Containment { probed: 3, positions: 100 },
            ],
        }
    }

    #[test]
    fn clusters_come_back_with_narrow_and_with_wide_ids() {
        for count in [3, 256, 257, 1000] {
            let clusters = clusters(count);
            let bytes = clusters.to_bytes().unwrap();
            assert_eq!(VocabClusters::parse(&bytes, TOKENS, COLS), Ok(clusters), "{count}");
            let ids = if count <= 256 { 7 } else { 14 };
            assert_eq!(bytes.len(), 24 + 3 * 8 + usize::from(count) * (4 + 2 * COLS as usize) + ids);
        }
    }

    #[test]
    fn the_least_number_of_clusters_for_a_share_is_a_measured_one() {
        let clusters = clusters(3);
        let least = [0.2, 0.4, 0.41, 0.99, 1.0, 1.1].map(|share| clusters.least_probed(share));
        assert_eq!(least, [Some(1), Some(1), Some(2), Some(2), Some(3), None]);
        assert_eq!((clusters.share(2), clusters.share(4)), (Some(0.99), None));
    }

    #[test]
    fn every_wrong_field_is_refused_at_its_byte() {
        let good = clusters(3).to_bytes().unwrap();
        let at = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            VocabClusters::parse(&bytes, TOKENS, COLS).unwrap_err().0
        };
        let with = |i: usize, value: u8| at(&|bytes| bytes[i] = value);
        assert_eq!(with(0, 2), 0, "a later version");
        assert_eq!(with(4, 0), 4, "no cluster");
        assert_eq!(with(6, 2), 4, "too many clusters");
        assert_eq!(with(8, 6), 8, "other columns than the model");
        assert_eq!(with(12, 6), 12, "another vocabulary");
        assert_eq!(with(20, 4), 20, "more measurements than clusters");
        assert_eq!(with(20, 2), 0, "a length that the counts do not make");
        assert_eq!(with(32, 1), 32, "measurements out of order");
        assert_eq!(with(40, 4), 40, "more clusters probed than there are");
        assert_eq!(with(36, 39), 36, "fewer positions with more clusters");
        assert_eq!(with(44, 101), 44, "more positions than were looked at");
        assert_eq!(with(16, 0), 28, "shares of nothing");
        assert_eq!(at(&|bytes| bytes[50..52].copy_from_slice(&[0x80, 0x7F])), 48, "an infinite lead");
        assert_eq!(with(65, 0x7E), 64, "a centroid that is no number");
        assert_eq!(with(96, 3), 96, "a token in no cluster");
        for len in 0..good.len() {
            VocabClusters::parse(&good[..len], TOKENS, COLS).unwrap_err();
        }
        // Counts whose sizes exceed every memory are refused by the length alone.
        let mut huge = good[..24].to_vec();
        huge[4..8].copy_from_slice(&MAX_CLUSTERS.to_le_bytes());
        huge[20..24].copy_from_slice(&0u32.to_le_bytes());
        huge[8..16].fill(0xFF);
        let (_, expected, _) = VocabClusters::parse(&huge, u32::MAX, u32::MAX).unwrap_err();
        assert!(expected.contains("562"), "{expected}");
    }

    #[test]
    fn what_the_format_cannot_hold_is_not_written() {
        let mut wide = clusters(3);
        wide.cluster_of[2] = 256;
        assert!(wide.to_bytes().is_err(), "an id that a byte cuts off to 0");
        let empty = VocabClusters { leads: Vec::new(), centroids: Vec::new(), ..clusters(3) };
        assert!(empty.to_bytes().is_err());
    }
}
