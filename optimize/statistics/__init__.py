"""Statistics of judges and labels: vectors in, frozen dataclasses out; no generator is needed.

`correlations`  `summary_level`, `dataset_level`, `system_level` or `correlation` by the level's
                name, all `Correlation`; `rho`, the value alone; `contrast_judges`: one judge's rho
                less another's, with interval and swap test
`intervals`     `Interval`, `Contrast`, `cautious_interval`, `stream`, `documents_for_difference`;
                an interval is None below 15 documents, at system level below 15 systems
`plain`         `pair_accuracy`, `contrast_accuracy`, `order_agreement`, `compare_scales`,
                `nearest_ratings`, `quadratic_kappa`
`human`         `annotator_agreement`, `one_annotator`, `reliability`, `krippendorff_alpha`
`corrected`     `mean_score`, `labels_needed`: true means from few labels and many judgements
"""
