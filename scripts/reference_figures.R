# The figures of R mirt that the tests compare with.
#
#   Rscript scripts/reference_figures.R DATA OUTPUT
#
# DATA holds lsat6/responses.csv and lalor2016_snli/responses_5gs.csv.gz, both long tables with the columns
# respondent_id, item_id, correct, and lalor2016_snli/items.csv; OUTPUT is made.
#
# The figures were printed by mirt 1.45.1. This script was written afterwards, from the description of the figures
# (61 nodes, TOL 1e-6 or tighter, a normal(-1.2, 0.5) prior on logit(c) for 3plprior alone) and from their columns. It
# has been parsed by R, but not been run with mirt, which was not at hand: where it prints something else, the
# figures are right and the script is to be mended. Digits beyond 1e-4 depend on TOL and on how standard errors are
# computed.
#
# Not written here: the order of the items of 5GS, which is that of the column item_id in *_2pl_pars.csv.

suppressPackageStartupMessages(library(mirt))

arguments <- commandArgs(trailingOnly = TRUE)
if (length(arguments) != 2) stop("use: Rscript reference_figures.R DATA OUTPUT")
data_folder <- arguments[1]
output <- arguments[2]
dir.create(output, showWarnings = FALSE, recursive = TRUE)

NODES <- 61
TOLERANCE <- 1e-6
CYCLES <- 5000 # the 3PL fits to 5GS do not converge within these

save_table <- function(table, ..., row.names = FALSE) {
  write.csv(table, file.path(output, paste0("mirt_", ..., ".csv")), row.names = row.names)
}

# Respondents x items of 1 and 0, items in the order given.
wide <- function(long, items) {
  values <- matrix(
    NA_real_, length(unique(long$respondent_id)), length(items),
    dimnames = list(unique(long$respondent_id), items)
  )
  values[cbind(as.character(long$respondent_id), as.character(long$item_id))] <- long$correct
  values
}

fit <- function(values, itemtype, model = 1, ...) {
  mirt(
    as.data.frame(values), model, itemtype = itemtype, SE = TRUE, SE.type = "Oakes", quadpts = NODES,
    TOL = TOLERANCE, technical = list(NCYCLES = CYCLES), verbose = FALSE, ...
  )
}

# a, d, b, c of each item with standard errors; that of b by the delta method in mirt's own IRT parameters.
parameters <- function(model, items) {
  traditional <- coef(model, IRTpars = TRUE, printSE = TRUE)
  intercepts <- coef(model, printSE = TRUE)
  on_logit <- coef(model, printSE = TRUE, rawug = TRUE)
  cell <- function(tables, item, row, column) {
    table <- tables[[item]]
    if (row %in% rownames(table) && column %in% colnames(table)) table[row, column] else NA
  }
  each <- function(tables, row, column) vapply(items, function(item) as.numeric(cell(tables, item, row, column)), 0)
  data.frame(
    item = items,
    a = each(intercepts, "par", "a1"), d = each(intercepts, "par", "d"),
    b = each(traditional, "par", "b"), c = each(traditional, "par", "g"),
    se_a = each(intercepts, "SE", "a1"), se_d = each(intercepts, "SE", "d"), se_b = each(traditional, "SE", "b"),
    se_logit_c = each(on_logit, "SE", "logit(g)")
  )
}

# What is printed of every model: S-X2, M2, Q3, and X2 of pairs of items.
diagnostics <- function(model, name) {
  sx2 <- itemfit(model, fit_stats = "S_X2", quadpts = NODES)
  save_table(sx2, name, "_sx2")
  m2 <- M2(model, quadpts = NODES)
  save_table(m2[c("M2", "df", "p", "RMSEA", "RMSEA_5", "RMSEA_95", "SRMSR", "TLI", "CFI")], name, "_M2")
  q3 <- residuals(model, type = "Q3", quadpts = NODES, verbose = FALSE)
  save_table(unclass(q3), name, "_Q3", row.names = TRUE)
  # lower triangle X2 and upper triangle signed Cramer's V; lower triangle df and upper triangle p
  pairs <- residuals(model, type = "LD", df.p = TRUE, quadpts = NODES, verbose = FALSE)
  save_table(unclass(pairs$LD), name, "_LD_LD", row.names = TRUE)
  save_table(unclass(pairs$df.p), name, "_LD_df.p", row.names = TRUE)
}

scores <- function(model, values, method) {
  found <- fscores(model, method = method, response.pattern = values, quadpts = NODES, verbose = FALSE)
  data.frame(theta = found[, "F1"], se = found[, "SE_F1"])
}

# LSAT section 6 -------------------------------------------------------------------------------------------------

long <- read.csv(file.path(data_folder, "lsat6", "responses.csv"))
lsat6 <- wide(long, sort(unique(long$item_id)))
colnames(lsat6) <- paste0("Item_", seq_len(ncol(lsat6)))
patterns <- unique(lsat6)
patterns <- patterns[order(apply(patterns, 1, paste, collapse = "")), ]

# a normal prior of mirt is on the parameter that it estimates: g stands for logit(c)
with_prior <- mirt.model("F = 1-5\nPRIOR = (1-5, g, norm, -1.2, 0.5)")
models <- list(
  rasch = fit(lsat6, "Rasch"), # slopes 1, variance of ability free
  "2pl" = fit(lsat6, "2PL"),
  "3plprior" = fit(lsat6, "3PL", with_prior)
)

for (kind in names(models)) {
  model <- models[[kind]]
  name <- paste0("lsat6_", kind)
  save_table(parameters(model, colnames(lsat6)), name, "_pars")
  diagnostics(model, name)
  other <- itemfit(model, fit_stats = c("Zh", "infit", "X2", "G2"), quadpts = NODES)
  save_table(other, name, "_itemfit_other")
  for (method in c("EAP", "MAP", "ML")) {
    table <- cbind(pattern = apply(patterns, 1, paste, collapse = ""), scores(model, patterns, method))
    save_table(table, name, "_", method)
  }
  save_table(fscores(model, method = "EAPsum", full.scores = FALSE, quadpts = NODES, verbose = FALSE), name, "_EAPsum")
  get <- function(what) extract.mirt(model, what)
  save_table(
    data.frame(
      N = nrow(lsat6), J = ncol(lsat6), logLik = get("logLik"), AIC = get("AIC"), BIC = get("BIC"), G2 = get("G2"),
      df = get("df"), converged = get("converged"), cycles = get("iterations"),
      mirt = as.character(packageVersion("mirt"))
    ),
    name, "_fit"
  )
}

# 5GS: all 30 items of a label ------------------------------------------------------------------------------------

long <- read.csv(gzfile(file.path(data_folder, "lalor2016_snli", "responses_5gs.csv.gz")))
ending <- c(entailment = "e$", neutral = "n$") # an item's name ends with the first letter of its label

for (label in names(ending)) {
  own <- long[grepl(ending[[label]], long$item_id), ]
  items <- unique(own$item_id)
  values <- wide(own, items)
  colnames(values) <- paste0("i", seq_along(items))
  name <- paste0("5gs_", label)
  one <- fit(values, "2PL")
  found <- parameters(one, colnames(values))
  save_table(
    data.frame(
      item_id = items, a = found$a, intercept = found$d, b = found$b, se_a = found$se_a, se_intercept = found$se_d,
      se_b = found$se_b
    ),
    name, "_2pl_pars"
  )
  diagnostics(one, paste0(name, "_2pl"))
  save_table(cbind(respondent_id = rownames(values), scores(one, values, "EAP")), name, "_2pl_EAP")
  guessing <- fit(values, "3PL") # no prior: does not converge, so that its parameters are no target
  found <- parameters(guessing, colnames(values))
  save_table(data.frame(item_id = items, a = found$a, b = found$b, c = found$c), name, "_3pl_pars")
  # two factors: nodes on each axis; how many were used for the figures is not known
  two <- mirt(
    as.data.frame(values), 2, itemtype = "2PL", quadpts = NODES, TOL = TOLERANCE, technical = list(NCYCLES = CYCLES),
    verbose = FALSE
  )
  rows <- lapply(list("1f_2pl" = one, "1f_3pl" = guessing, "2f_2pl" = two), function(model) {
    get <- function(what) extract.mirt(model, what)
    data.frame(
      logLik = get("logLik"), AIC = get("AIC"), BIC = get("BIC"), SABIC = get("SABIC"), npar = get("nest"),
      converged = get("converged")
    )
  })
  save_table(cbind(model = names(rows), do.call(rbind, rows)), name, "_model_fit")
}
