"""The figures that measurements are compared with; none of them changes behaviour."""

# Shares 0..1 unless stated.
RANK_CORRELATION = 0.90  #: boosted against base order, at least: a boost reorders neighbours, it does not shuffle
MRR_RATIO = 0.95  #: boosted against base MRR, at least
EXTRACTION_PRECISION = 0.85  #: at least
EXTRACTION_RECALL = 0.70  #: at least
REDACTION_FALSE_POSITIVES = 0.15  #: at most
CONTAMINATION = 0.01  #: of new files, at most

# Milliseconds, 95th percentile.
HOOK_MS = 5.0  #: added to a tool call by the queue path
SESSION_BOOST_MS = 10.0  #: per search
CAUSAL_BOOST_MS = 20.0  #: per search
CAUSAL_QUERY_MS = 10.0  #: one traversal by a recursive query
REDACTION_MS = 2.0  #: per 10 KB
