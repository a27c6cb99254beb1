"""What keras_transformer needs and what it installs."""

import pathlib
import re

import setuptools

ROOT = pathlib.Path(__file__).resolve().parent

# Ranges are those that were tested. The train step relies on how Keras 3.15 and
# TensorFlow 2.21 work inside, so these two stay within a minor version.
TENSORFLOW = "tensorflow>=2.21,<2.22"
INSTALL_REQUIRES = [
    TENSORFLOW,
    # 2.21.0 misses a data file of ICU (tensorflow/text issue 1541).
    "tensorflow-text>=2.21.1,<2.22",
    "keras>=3.15,<3.16",
    "keras-nlp>=0.32,<0.33",
    "tensorflow-datasets>=4.9.10,<4.10",
    # TFDS 4.9.10 imports it without requiring it.
    "importlib_resources>=6.4",
    "sentencepiece>=0.2.1,<0.3",
    "sacrebleu>=2.6,<3",
    "sacremoses>=0.2,<0.3",
    # Scripts and word boundaries of Unicode.
    "regex>=2024.11",
    # Files of published models.
    "huggingface_hub>=2.4,<3",
    "pyyaml>=6,<7",
    "safetensors>=0.5,<1",
    "absl-py>=2.1,<3",
    "matplotlib>=3.10,<4",
    "numpy>=2.1,<3",
    # tf.summary, which Keras's TensorBoard callback calls, is implemented there.
    "tensorboard>=2.20,<3",
    "tqdm>=4.66,<5",
]

# Web pages.
DOCUMENTS = ["justhtml>=3.16,<4"]
SERVING = ["tensorflow-serving-api==2.21.*", "grpcio>=1.67,<2", "requests>=2.32,<3"]
# The server of one machine.
SERVER = [
    *DOCUMENTS,
    "fastapi>=0.165,<1",
    "prometheus_client>=0.26,<1",
    "python-multipart>=0.0.34,<1",
    "uvicorn>=0.54,<1",
]
CTRANSLATE2 = ["ctranslate2>=4.8,<5"]
# Weights that are published only as a pickle.
PYTORCH = ["torch>=2.6,<3"]
# With Dask, for a cluster of one's own.
BEAM = ["apache-beam[dask]>=2.77,<3"]
# Alignments of words.
ALIGN = ["eflomal>=2,<3"]
# Cleaning of corpora. OpusFilter 3.3 needs the older interface of py3langid.
FILTER = [*ALIGN, "opusfilter>=3.3,<4", "py3langid<0.4"]
# BLEU of Japanese and Korean: dictionaries of 150 MB.
MECAB = ["sacrebleu[ja,ko]>=2.6,<3"]
TEST = [
    *MECAB,
    *SERVING,
    *SERVER,
    *CTRANSLATE2,
    *BEAM,
    # Starlette's test client needs it.
    "httpx2>=2.16,<3",
    "hypothesis>=6.100,<7",
    # A client of LibreTranslate.
    "libretranslatepy>=2.1,<3",
    "pytest>=9,<10",
    "pytest-timeout>=2.3,<3",
    "pytest-xdist>=3.6,<4",
    # Drives Chromium over pages of attention; chromedriver comes with the system.
    "selenium>=4.30,<5",
]
# The documentation site.
DOCS = [
    "mkdocs>=1.6.1,<2",
    "mkdocs-material>=9.8.1,<10",
    "mkdocstrings>=1.0.8,<2",
    "mkdocstrings-python>=2.0.11,<3",
]
EXTRAS_REQUIRE = {
    "test": TEST,
    # TensorFlow with the CUDA libraries of NVIDIA's own packages.
    "gpu": [TENSORFLOW.replace("tensorflow", "tensorflow[and-cuda]")],
    "documents": DOCUMENTS,
    "serving": SERVING,
    "server": SERVER,
    "ctranslate2": CTRANSLATE2,
    "beam": BEAM,
    "pytorch": PYTORCH,
    "align": ALIGN,
    "filter": FILTER,
    "mecab": MECAB,
    # Users of benchmarks/server_load.py.
    "load": ["locust>=2.47,<3"],
    "docs": DOCS,
    "dev": [
        *TEST,
        *DOCS,
        "build>=1.2,<2",
        "import-linter>=2,<3",
        "ruff>=0.17,<0.18",
        "vulture>=2.14,<3",
    ],
}

PROGRAMS = {
    "kt-prepare-data": "bin.prepare_data",
    "kt-import-model": "bin.import_model",
    "kt-train": "bin.train",
    "kt-average-checkpoints": "bin.average_checkpoints",
    "kt-make-shortlist": "bin.make_shortlist",
    "kt-evaluate": "bin.evaluate",
    "kt-translate": "bin.translate",
    "kt-back-translate": "bin.back_translate",
    "kt-extend-vocabulary": "bin.extend_vocabulary",
    "kt-parse": "bin.parse",
    "kt-training-cost": "bin.training_cost",
    "kt-reproduce": "bin.reproduce",
    "kt-visualize-attention": "bin.visualize_attention",
    "kt-launch-local-workers": "bin.launch_local_workers",
    "kt-export": "export.export_saved_model",
    "kt-serve": "export.serve",
    "kt-client": "export.client",
    "kt-convert-ctranslate2": "export.convert_ctranslate2",
    "kt-convert-huggingface": "export.convert_huggingface",
    "kt-translate-beam": "export.translate_beam",
}


def read_version() -> str:
    """Return `__version__` without importing the package, which needs TensorFlow."""
    path = ROOT / "keras_transformer" / "__init__.py"
    found = re.search(
        r'^__version__ = "([^"]+)"$', path.read_text(encoding="utf-8"), re.MULTILINE
    )
    if found is None:
        raise ValueError(f'{path} must have a line __version__ = "...".')
    return found[1]


def read_readme() -> str:
    """Return the README, or nothing where a Docker layer has not copied it yet."""
    path = ROOT / "README.md"
    return path.read_text(encoding="utf-8") if path.exists() else ""


setuptools.setup(
    name="keras_transformer",
    version=read_version(),
    description=(
        'The Transformer of "Attention Is All You Need" in TensorFlow and Keras 3: '
        "from parallel text to a served translation"
    ),
    long_description=read_readme(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    # Keras 3.15 needs 3.11; TensorFlow 2.21 ends at 3.13.
    python_requires=">=3.11,<3.14",
    # The programs lie beside the library in the checkout, and inside it once installed,
    # so that site-packages gets one name.
    packages=[
        *setuptools.find_packages(include=["keras_transformer", "keras_transformer.*"]),
        "keras_transformer.bin",
        "keras_transformer.export",
    ],
    package_dir={
        "keras_transformer.bin": "bin",
        "keras_transformer.export": "export",
    },
    package_data={
        "keras_transformer": ["py.typed", "visualization/*.html", "server/page/*"],
        "keras_transformer.export": ["serving/*"],
    },
    install_requires=INSTALL_REQUIRES,
    extras_require=EXTRAS_REQUIRE,
    entry_points={
        "console_scripts": [
            f"{name} = keras_transformer.{module}:run"
            for name, module in PROGRAMS.items()
        ]
    },
)
