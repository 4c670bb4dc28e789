"""What is done with many texts: tables of them, a corpus, an audit, a vocabulary, training."""
