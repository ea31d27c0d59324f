"""Texts of made-up words, by topics: what TF-IDF tables look like, without a download."""

import numpy as np

N_COMMON = 600
N_OWN = 1500


def texts(n_texts: int, subject: int, seed: int) -> list[str]:
    """Return texts of 30 to 150 words: three in five are common to all subjects, by Zipf's law, the rest of its topics.

    Each text mixes six topics of its subject, each of which has a few of the subject's words; neighbouring subjects
    share a third of theirs.
    """
    generator, of_subject = np.random.default_rng(seed), np.random.default_rng(subject)
    common = 1.0 / np.arange(1, N_COMMON + 1)
    topics = of_subject.dirichlet(np.full(N_OWN, 0.02), size=6)
    written = []
    for _ in range(n_texts):
        n_words = int(generator.integers(30, 150))
        n_common = generator.binomial(n_words, 0.6)
        words = [f"common{i}" for i in generator.choice(N_COMMON, n_common, p=common / common.sum())]
        shares = generator.dirichlet(np.full(6, 0.3)) @ topics
        own = generator.choice(N_OWN, n_words - n_common, p=shares / shares.sum())
        words += [f"word{subject * 1000 + i}" for i in own]
        written.append(" ".join(words))
    return written
